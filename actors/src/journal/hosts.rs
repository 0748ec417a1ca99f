//! The hosts that share the store.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::event::Timestamp;
use crate::host::{Host, HostChange, HostState, Used};
use crate::refusal::Refusal;

#[async_trait]
pub trait Hosts {
    /// By their names.
    async fn hosts(&self) -> Result<Vec<Host>, Refusal>;

    /// Whether the lease of a host is over, as far as the rows can be read.
    async fn is_lost(&self, host: &str) -> bool {
        let now = Timestamp::now();
        let is_there = |it: &Host| it.host_id == host && it.liveness(now).is_there();
        self.hosts().await.is_ok_and(|hosts| !hosts.iter().any(is_there))
    }

    /// What the attempts that hold a running slot have of their hosts.
    async fn used(&self) -> Result<BTreeMap<String, Used>, Refusal>;

    /// Renews the lease of a host, if this incarnation still has it, and reads its state.
    async fn renew_host(
        &self,
        host: &str,
        incarnation: u64,
        lease: Duration,
    ) -> Result<Option<HostState>, Refusal>;

    /// Changes a host; `None`: it is removed. Attempts that are queued on it get a new revision.
    async fn change_host(
        &self,
        host: &str,
        change: HostChange,
    ) -> Result<Option<HostState>, Refusal>;
}

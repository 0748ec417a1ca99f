//! The hosts that share the store.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::host::{Host, HostChange, HostState, Used};
use crate::refusal::Refusal;

#[async_trait]
pub trait Hosts {
    /// By their names.
    async fn hosts(&self) -> Result<Vec<Host>, Refusal>;

    /// Whether a host's daemon is there, as its lease shows; also where the rows can't be read. Nothing is
    /// taken from a host because of this alone.
    async fn is_there(&self, host: &str) -> bool {
        let is_there = |it: &Host| it.host_id == host && it.liveness().is_there();
        self.hosts().await.map_or(true, |hosts| hosts.iter().any(is_there))
    }

    /// Whether a host was given up: nothing of its daemon is committed before it has registered
    /// anew. `false` where the rows can't be read.
    async fn is_given_up(&self, host: &str) -> bool {
        let holds = |it: &Host| it.host_id == host && it.fenced_at.is_none();
        self.hosts().await.is_ok_and(|hosts| !hosts.iter().any(holds))
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

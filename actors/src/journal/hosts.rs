//! The hosts that share the store, and their leases.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::host::{Host, HostChange, HostState, Used};
use crate::refusal::Refusal;

/// The rows of hosts. Whether a host is alive is judged by the database's clock.
#[async_trait]
pub trait Hosts {
    /// All hosts, in the order of their names.
    async fn hosts(&self) -> Result<Vec<Host>, Refusal>;

    /// Whether a host's daemon runs, as its lease shows. `true` also where the rows can't be read: the
    /// caller forwards a call then instead of acting without the host, and takes nothing from it because of
    /// this alone.
    async fn is_there(&self, host: &str) -> bool {
        let is_there = |it: &Host| it.host_id == host && it.liveness().is_there();
        self.hosts().await.map_or(true, |hosts| hosts.iter().any(is_there))
    }

    /// Whether a host was given up: nothing that its daemon does is committed until it has registered
    /// again. `false` where the rows can't be read.
    async fn is_given_up(&self, host: &str) -> bool {
        let holds = |it: &Host| it.host_id == host && it.fenced_at.is_none();
        self.hosts().await.is_ok_and(|hosts| !hosts.iter().any(holds))
    }

    /// The slots and the memory that are in use, by host.
    async fn used(&self) -> Result<BTreeMap<String, Used>, Refusal>;

    /// Renews the lease of a host and reads its state. `None`: this incarnation does not have the host any
    /// more.
    async fn renew_host(
        &self,
        host: &str,
        incarnation: u64,
        lease: Duration,
    ) -> Result<Option<HostState>, Refusal>;

    /// Changes a host, and returns its new state; `None`: it is removed. Attempts that are queued on it get
    /// a new revision, because their status shows what they wait for.
    ///
    /// # Errors
    /// The host is unknown, or can't be removed.
    async fn change_host(
        &self,
        host: &str,
        change: HostChange,
    ) -> Result<Option<HostState>, Refusal>;
}

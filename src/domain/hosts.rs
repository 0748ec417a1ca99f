//! The methods behind `provost hosts` and `provost host`: list, drain, resume, remove.

use provost_actors::gateway;
use provost_actors::host::{Host, Used};
use provost_actors::journal::Hosts as _;

use super::Domain;
use crate::api::Refusable;
use crate::api::commands::{ChangeHostParams, HostLine, HostsListed};

impl Domain {
    /// All registered hosts, with the slots and the memory that their attempts use.
    pub(super) async fn list_hosts(&self) -> Refusable<HostsListed> {
        let used = self.store.used().await?;
        let hosts = self.store.hosts().await?.into_iter();
        let line = |host: Host| {
            let used = used.get(&host.host_id).copied().unwrap_or_default();
            line(host, used)
        };
        Ok(HostsListed { hosts: hosts.map(line).collect() })
    }

    /// Drains, resumes or removes a host; returns the list after it.
    pub(super) async fn change_host(&self, params: ChangeHostParams) -> Refusable<HostsListed> {
        let ChangeHostParams { host, change } = params;
        gateway::change_host(&self.gateway, &self.world, host, change).await?;
        self.list_hosts().await
    }
}

fn line(host: Host, used: Used) -> HostLine {
    HostLine {
        liveness: host.liveness(),
        version_differs: host.is_other_version(env!("CARGO_PKG_VERSION")),
        slots_used: used.slots,
        memory_used_bytes: used.memory,
        host: host.host_id,
        role: host.role,
        state: host.state,
        labels: host.labels,
        slots: host.slots,
        memory_bytes: host.memory,
        version: host.version,
        incarnation: host.incarnation,
        registered_at: host.registered_at,
        renewed_at: host.renewed_at,
        lease_until: host.lease_until,
    }
}

//! The sweep of lost hosts, by the daemons that serve clients. It runs after each renewal of the lease.

use crate::host::HostRole;
use crate::world::World;

/// Gives away the attempts of lost hosts. A worker leaves this to the daemons that serve clients.
pub async fn sweep(world: &World) {
    if world.host.role == HostRole::Worker {
        return;
    }
    match world.journal.sweep().await {
        Ok(lost) => {
            for host in lost {
                tracing::warn!(host, "a host is lost: its attempts go to others");
            }
        }
        Err(refusal) => tracing::warn!(%refusal, "it is not known whether hosts are lost"),
    }
}

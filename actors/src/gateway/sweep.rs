//! The sweep of lost hosts, by the daemons that serve clients.

use crate::host::HostRole;
use crate::world::World;

/// Gives away the attempts of hosts that are lost, unless that is left to others.
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

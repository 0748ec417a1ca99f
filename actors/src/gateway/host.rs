//! The lease of this host, and the state of hosts: a person changes it, and it is read after each renewal.
//! The gateway gets the state of its own host, in the order of the reads.

use std::sync::Arc;

use ractor::ActorRef;
use tokio::time::{MissedTickBehavior, interval};

use super::calls::detached;
use super::message::GatewayMessage;
use super::sweep::sweep;
use super::{GatewayState, ending};
use crate::host::{HostChange, HostState, Lease};
use crate::refusal::Refusal;
use crate::world::World;

impl GatewayState {
    /// Nothing new begins while the host drains; after that the queue goes on at once.
    pub(super) fn host_state(&mut self, state: HostState) {
        self.world.host.set(state);
        self.admission.hold(state == HostState::Draining);
        self.grant();
        self.claim();
    }
}

/// Drains a host, lets it go on, or removes it. If it is this one, the gateway has taken notice.
pub async fn change_host(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    host: String,
    change: HostChange,
) -> Result<(), Refusal> {
    let (gateway, world) = (gateway.clone(), Arc::clone(world));
    detached(async move {
        let _telling = world.host.telling.lock().await;
        match world.journal.change_host(&host, change).await? {
            Some(state) if host == world.host.id => tell(&gateway, state).await,
            _ => Ok(()),
        }
    })
    .await
}

/// Renews the lease of this host for as long as it is this daemon's. It waits for nothing but the answers
/// to renewals.
pub async fn keep_lease(world: Arc<World>, lease: Lease) {
    let host = &world.host;
    let mut renew = interval(lease.renew_every());
    renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        renew.tick().await;
        match world.renew(lease).await {
            Ok(Some(_)) => host.renewed.notify_one(),
            // The daemon starts anew.
            Ok(None) => return,
            Err(refusal) => {
                tracing::warn!(host = host.id, %refusal, "the lease of this host is not renewed");
            }
        }
    }
}

/// Does after each renewal what it is a reason for: reads the state of the host, looks for lost hosts, and
/// claims.
pub async fn follow_lease(gateway: ActorRef<GatewayMessage>, world: Arc<World>) {
    loop {
        world.host.renewed.notified().await;
        if follow(&gateway, &world).await.is_err() {
            return;
        }
        sweep(&world).await;
        let _ = gateway.send_message(GatewayMessage::Claim);
    }
}

/// Tells the gateway the state of this host, if it can be read.
async fn follow(gateway: &ActorRef<GatewayMessage>, world: &World) -> Result<(), Refusal> {
    let _telling = world.host.telling.lock().await;
    match world.journal.hosts().await {
        Ok(hosts) => match hosts.into_iter().find(|it| it.host_id == world.host.id) {
            Some(own) => tell(gateway, own.state).await,
            None => Ok(()),
        },
        Err(refusal) => {
            tracing::warn!(%refusal, "the state of this host can't be read");
            Ok(())
        }
    }
}

async fn tell(gateway: &ActorRef<GatewayMessage>, state: HostState) -> Result<(), Refusal> {
    ractor::call!(gateway, |port| GatewayMessage::HostState(state, port)).map_err(|_| ending())
}

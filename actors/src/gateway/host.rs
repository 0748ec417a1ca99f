//! The lease of this host, and the state of hosts. A person changes a state; this daemon reads its own
//! state after each renewal. The gateway gets the states in the order in which they were read or changed.
//!
//! ```text
//!  keep_lease ─renewed─▶ follow_lease ─▶ HostState ─▶ gateway: hold or grant
//!      │                      ├────────▶ sweep of lost hosts
//!      │                      └────────▶ Claim ─────▶ gateway
//!      └─ the lease is not this daemon's any more: returns, and the daemon restarts
//! ```
//!
//! `world.host.telling` is held from the read or change of a state until the gateway has it: else an older
//! state could arrive after a newer one.

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
    /// While the host drains, nothing new begins on it. When it no longer drains, its queue resumes at once.
    pub(super) fn host_state(&mut self, state: HostState) {
        self.world.host.set(state);
        self.admission.hold(state == HostState::Draining);
        self.grant();
        self.claim();
    }
}

/// Drains a host, resumes it, or removes it. If it is this host, its gateway knows the new state when this
/// returns; another host reads it after its next renewal.
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

/// Renews the lease of this host as long as it is this daemon's. It waits for nothing but the answers to the
/// renewals: what follows from one runs in [`follow_lease`], so that slow reads delay no renewal.
pub async fn keep_lease(world: Arc<World>, lease: Lease) {
    let host = &world.host;
    let mut renew = interval(lease.renew_every());
    renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        renew.tick().await;
        match world.renew(lease).await {
            Ok(Some(_)) => host.renewed.notify_one(),
            // Another daemon gave the host up, or it was removed: the daemon restarts.
            Ok(None) => return,
            Err(refusal) => {
                tracing::warn!(host = host.id, %refusal, "the lease of this host is not renewed");
            }
        }
    }
}

/// After each renewal: reads the state of the host, sweeps lost hosts, and claims. Returns when the gateway
/// has ended.
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

/// Passes the state of this host to the gateway, if it can be read.
///
/// # Errors
/// The gateway has ended.
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

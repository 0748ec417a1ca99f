//! Work that attempts of other hosts have committed for attempts of this host: the owners of the latter
//! apply it. The rows are read whenever there may be such work, and every second.

use std::sync::Arc;

use ractor::ActorRef;

use super::GatewayState;
use super::message::GatewayMessage;
use super::owners::ask_owner;
use crate::attempt::AttemptMessage;
use crate::attempt::finish::is_committed;
use crate::journal::Finish;
use crate::world::World;

impl GatewayState {
    /// Passes each finish to the owner of the attempt whose branch gets the work. An owner that applies it
    /// already ignores the message, so repeating it does no harm.
    pub(super) fn apply(&self, finishes: Vec<Finish>) {
        // First the attempts of an earlier daemon get owners: one of them may be applying this work already.
        if self.is_closing || !self.claims.are_open {
            return;
        }
        for finish in finishes {
            let Some(onto) = finish.request.onto else { continue };
            let gateway = self.myself.clone();
            tokio::spawn(async move {
                let apply = |_, port| AttemptMessage::Apply(Box::new(finish.clone()), port);
                if let Err(refusal) = ask_owner(&gateway, onto, false, apply).await {
                    tracing::warn!(attempt = %onto, %refusal, "work is applied to it later");
                }
            });
        }
    }
}

/// Passes what other hosts have committed to the gateway, until the gateway ends.
pub async fn keep_applying(gateway: ActorRef<GatewayMessage>, world: Arc<World>) {
    loop {
        match world.journal.to_apply().await {
            Ok(mut finishes) => {
                finishes.retain(is_committed);
                let is_sent = finishes.is_empty()
                    || gateway.send_message(GatewayMessage::Apply(finishes)).is_ok();
                if !is_sent {
                    return;
                }
            }
            Err(refusal) => tracing::debug!(%refusal, "what is to be applied here is not known"),
        }
        world.journal.finish_news().await;
    }
}

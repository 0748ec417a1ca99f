//! Work that other hosts' attempts have committed for attempts of this host: their owners apply it. The rows
//! are looked at whenever there may be such work, and each second.

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
    /// Gives each to the owner of the attempt whose branch gets the work, which begins it once.
    pub(super) fn apply(&self, finishes: Vec<Finish>) {
        // What an earlier daemon left has to be taken up before.
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

/// Has the gateway apply what other hosts have committed, until it ends.
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

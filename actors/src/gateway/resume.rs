//! Attempts that resume by themselves when the limit that ended their last turn ends:
//! only if their executor's policy says so, and only if the executor reported when.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

use crate::attempt::GO_ON;
use crate::event::Timestamp;
use crate::ids::{AttemptId, ProcessId};
use crate::journal::{FollowUpAction, Key};
use crate::payload;
use crate::refusal::Refusal;
use crate::world::World;

use super::GatewayState;
use super::follow_up::follow_up;
use super::message::{FollowUpRequest, GatewayMessage};

/// The longest sleep: the wall clock may be set meanwhile.
const NAP: Duration = Duration::from_mins(1);

impl GatewayState {
    /// Resumes an attempt at a time, unless something else happens to it before.
    pub(super) fn resume_at(&self, attempt: AttemptId, process: ProcessId, at: Timestamp) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            loop {
                let left = at.since(Timestamp::now());
                if !left.is_zero() {
                    tokio::time::sleep(left.min(NAP)).await;
                    continue;
                }
                match resume(&myself, &world, (attempt, process, at)).await {
                    Ok(()) => return,
                    Err(refusal) => {
                        tracing::warn!(%attempt, %refusal, "an attempt could not resume by itself");
                        if !refusal.code.retryable() {
                            return;
                        }
                    }
                }
                tokio::time::sleep(NAP).await;
            }
        });
    }

    /// Takes up those that an earlier daemon would have resumed.
    pub(super) fn resume_left(&self) {
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            match journal.resumable().await {
                Ok(left) => left.into_iter().for_each(|(attempt, process, at)| {
                    let _ = myself.send_message(GatewayMessage::Resumes(attempt, process, at));
                }),
                Err(refusal) => {
                    tracing::error!(%refusal, "the attempts that resume by themselves can't be read");
                }
            }
        });
    }
}

/// Resumes an attempt if it still waits for this.
async fn resume(
    gateway: &ActorRef<GatewayMessage>,
    world: &World,
    waits: (AttemptId, ProcessId, Timestamp),
) -> Result<(), Refusal> {
    if !world.journal.resumable().await?.contains(&waits) {
        return Ok(());
    }
    let (attempt_id, process, _) = waits;
    tracing::info!(attempt = %attempt_id, "an attempt's limit has ended: it resumes");
    // Once after each turn.
    let key = Key {
        tool: "resume",
        request_id: process.to_string(),
        payload_hash: payload::hash(&process),
        resolved_hash: None,
    };
    let request = FollowUpRequest {
        attempt_id,
        action: FollowUpAction::Queue,
        prompt: GO_ON.to_owned(),
        variant: None,
        unless_stopped: false,
    };
    follow_up(gateway, world, Some(key), request).await.map(drop)
}

//! Attempts that go on by themselves when the limit that ended their last turn is
//! over: only those whose executor's policy says so, and only when it told when.

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

use super::State;
use super::follow_up::follow_up;
use super::message::{FollowUpRequest, Message};

/// The longest sleep: the wall clock may be set meanwhile.
const NAP: Duration = Duration::from_mins(1);

impl State {
    /// An attempt is to go on at a time, unless something else has happened to it.
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
                        tracing::warn!(%attempt, %refusal, "it does not go on by itself");
                        if !refusal.code.retryable() {
                            return;
                        }
                    }
                }
                tokio::time::sleep(NAP).await;
            }
        });
    }

    /// Takes up those that an earlier daemon was to let go on.
    pub(super) fn resume_left(&self) {
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            match journal.resumable().await {
                Ok(left) => left.into_iter().for_each(|(attempt, process, at)| {
                    let _ = myself.send_message(Message::Resumes(attempt, process, at));
                }),
                Err(refusal) => tracing::error!(%refusal, "nothing goes on by itself"),
            }
        });
    }
}

/// Lets an attempt go on that still waits for this.
async fn resume(
    gateway: &ActorRef<Message>,
    world: &World,
    waits: (AttemptId, ProcessId, Timestamp),
) -> Result<(), Refusal> {
    if !world.journal.resumable().await?.contains(&waits) {
        return Ok(());
    }
    let (attempt_id, process, _) = waits;
    tracing::info!(attempt = %attempt_id, "its limit is over: it goes on");
    // Once after each turn, whoever else has been told of it.
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

//! Attempts that go on by themselves when the limit that ended their last turn is
//! over: only those whose executor's policy says so, and only when it told when.

use std::sync::Arc;
use std::time::Duration;

use crate::event::Timestamp;
use crate::ids::{AttemptId, ProcessId};
use crate::journal::{FollowUpAction, Phase};

use super::State;
use super::follow_up::follow_up;
use super::message::{FollowUpRequest, Message};

/// What an attempt is told that goes on.
const PROMPT: &str = "The limit that ended your last turn is over. Go on where you were.";
/// The longest sleep: the wall clock may be set meanwhile.
const NAP: Duration = Duration::from_mins(1);

impl State {
    /// An attempt is to go on at a time, unless something else has happened to it.
    pub(super) fn resume_at(&self, attempt: AttemptId, process: ProcessId, at: Timestamp) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            loop {
                let left = at.since(Timestamp::now());
                if left.is_zero() {
                    break;
                }
                tokio::time::sleep(left.min(NAP)).await;
            }
            let is_as_it_was = match world.journal.attempt(attempt).await {
                Ok(Some(found)) => {
                    found.process.process_id == process && found.phase == Phase::Settled
                }
                _ => false,
            };
            if !is_as_it_was {
                return;
            }
            tracing::info!(%attempt, "its limit is over: it goes on");
            let request = FollowUpRequest {
                attempt_id: attempt,
                action: FollowUpAction::Queue,
                prompt: PROMPT.to_owned(),
                variant: None,
            };
            if let Err(refusal) = follow_up(&myself, &world, None, request).await {
                tracing::warn!(%attempt, %refusal, "it does not go on by itself");
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

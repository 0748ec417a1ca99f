//! What an earlier daemon left: attempts that need an owner, calls that were not completed, and attempts
//! that resume by themselves when the limit that ended their last turn is over.
//!
//! ```text
//!  Restore ─▶ a task reads the rows ─▶ Restored ─▶ owners ─▶ open stops again ─▶ timers ─▶ grant, claim
//! ```
//!
//! The order matters: an attempt with an open stop loses its place in the queue before slots are granted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use ractor::concurrency::oneshot;

use crate::attempt::{self, FollowUpRequest, RESUME_PROMPT};
use crate::event::Timestamp;
use crate::ids::{AttemptId, ProcessId, QueueId};
use crate::journal::{FollowUpAction, Intent, Key, Phase, Priority};
use crate::refusal::Refusal;
use crate::world::World;

use super::GatewayState;
use super::calls::follow_up;
use super::message::{GatewayMessage, Left, Port};

/// The longest sleep until a limit ends: the wall clock may be set meanwhile.
const NAP: Duration = Duration::from_mins(1);

impl GatewayState {
    /// Reads the rows in a task.
    pub(super) fn restore(&self, port: Port<usize>) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        let journal = Arc::clone(&world.journal);
        tokio::spawn(async move {
            let left = async {
                give_back_ports(&world).await?;
                let (attempts, intents) =
                    (journal.unsettled().await?, journal.open_intents().await?);
                Ok((attempts, intents, journal.resumable().await?))
            };
            let _ = myself.send_message(GatewayMessage::Restored(left.await, port));
        });
    }

    /// Takes up what was read.
    pub(super) async fn restored(&mut self, left: Result<Left, Refusal>, port: Port<usize>) {
        let (attempts, intents, resumable) = match left {
            Ok(left) => left,
            Err(refusal) => return drop(port.send(Err(refusal))),
        };
        let count = attempts.len();
        let queued = attempts.iter().filter(|attempt| attempt.phase == Phase::Queued);
        let queued = queued.map(|attempt| (attempt.attempt_id, attempt.priority)).collect();
        for attempt in attempts {
            self.take_up(attempt).await;
        }
        self.complete_intents(intents, &queued);
        for (attempt, process, at) in resumable {
            self.resume_at(attempt, process, at);
        }
        // The order: first all owners and stops, then slots, and at last attempts of no host for the rest.
        self.grant();
        self.claims.are_open = true;
        self.claim();
        let _ = port.send(Ok(count));
    }

    /// Makes each open stop again under its key; a client that retries joins it. Until it is answered,
    /// nothing of its attempt begins: no turn that waits for a slot, which would run for a moment, and no
    /// follow-up, which the stop came before.
    fn complete_intents(
        &mut self,
        open: Vec<(Key, Intent)>,
        queued: &HashMap<AttemptId, Priority>,
    ) {
        for (key, intent) in open {
            let Intent::StopAttempt { attempt_id, force } = intent;
            let held_back = queued.get(&attempt_id).copied();
            if held_back.is_some() {
                self.admission.leave(attempt_id);
            }
            self.stopping.insert(attempt_id, Vec::new());
            let (port, answer) = oneshot();
            self.stop(Some(key), attempt_id, force, port.into());
            let myself = self.myself.clone();
            tokio::spawn(async move {
                let answer = answer.await;
                tracing::info!(?intent, ?answer, "an earlier daemon's call was made again");
                let queue_again = held_back.filter(|_| !matches!(answer, Ok(Ok(_))));
                let _ =
                    myself.send_message(GatewayMessage::IntentCompleted(attempt_id, queue_again));
            });
        }
    }

    /// A stop of an earlier daemon is over: the requests that waited for it continue.
    pub(super) fn intent_completed(&mut self, id: AttemptId, queue_again: Option<Priority>) {
        if let Some(priority) = queue_again {
            self.slot_wanted(id, priority);
        }
        for request in self.stopping.remove(&id).unwrap_or_default() {
            self.owner(id, request);
        }
    }

    /// Resumes an attempt at a time, unless something else has happened to it by then. Tries again while
    /// the refusal may pass.
    pub(super) fn resume_at(&self, attempt: AttemptId, process: ProcessId, at: Timestamp) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            loop {
                let left = at.since(Timestamp::now());
                if !left.is_zero() {
                    tokio::time::sleep(left.min(NAP)).await;
                    continue;
                }
                let Err(refusal) = resume(&myself, &world, (attempt, process, at)).await else {
                    return;
                };
                tracing::warn!(%attempt, %refusal, "an attempt could not resume by itself");
                if !refusal.code.retryable() {
                    return;
                }
                tokio::time::sleep(NAP).await;
            }
        });
    }
}

/// Gives back the ports of collected worktrees whose daemon was killed before it did so. At this time no
/// attempt has an owner yet that could take them again.
async fn give_back_ports(world: &World) -> Result<(), Refusal> {
    for id in world.journal.port_holders().await? {
        if attempt::is_gone(world, id).await? {
            world.journal.give_back_ports(id).await?;
        }
    }
    Ok(())
}

/// Resumes an attempt if its row still says the same: the same turn was ended by the same limit.
async fn resume(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    waits: (AttemptId, ProcessId, Timestamp),
) -> Result<(), Refusal> {
    if !world.journal.resumable().await?.contains(&waits) {
        return Ok(());
    }
    let (attempt_id, process, _) = waits;
    tracing::info!(attempt = %attempt_id, "an attempt's limit has ended: it resumes");
    // The key has the turn's process: each turn is resumed once.
    let key = Key::new("resume", process.to_string(), &process);
    let request = FollowUpRequest {
        attempt_id,
        queue_id: QueueId::new(),
        action: FollowUpAction::Queue,
        prompt: RESUME_PROMPT.to_owned(),
        variant: None,
        unless_stopped: false,
        review: None,
    };
    follow_up(gateway, world, Some(key), request).await.map(drop)
}

//! What an earlier daemon left: attempts that need an owner, calls that were not completed, and attempts
//! that resume by themselves when the limit that ended their last turn is over.
//!
//! ```text
//!  Restore ─▶ a task reads the rows ─▶ Restored ─▶ owners ─▶ open stops again ─▶ timers ─▶ grant, claim
//! ```
//!
//! The order matters: an attempt with an open stop loses its place in the queue before slots are granted.

use std::collections::{BTreeMap, HashMap};
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

    /// Makes each open stop again under its key; a client that retries joins it. Until all stops of an
    /// attempt are answered, nothing of it begins: no turn that waits for a slot, which would run for a
    /// moment, and no follow-up, which the stop came before.
    fn complete_intents(
        &mut self,
        open: Vec<(Key, Intent)>,
        queued: &HashMap<AttemptId, Priority>,
    ) {
        for (attempt, stops) in of_attempts(open) {
            let held_back = queued.get(&attempt).copied();
            if held_back.is_some() {
                self.admission.leave(attempt);
            }
            self.stopping.insert(attempt, Vec::new());
            let mut answers = Vec::new();
            for (key, force) in stops {
                let (port, answer) = oneshot();
                self.stop(Some(key), attempt, force, port.into());
                answers.push(answer);
            }
            let myself = self.myself.clone();
            tokio::spawn(async move {
                let mut is_stopped = false;
                for answer in answers {
                    let answer = answer.await;
                    tracing::info!(%attempt, ?answer, "an earlier daemon's stop was made again");
                    is_stopped |= matches!(answer, Ok(Ok(_)));
                }
                let queue_again = held_back.filter(|_| !is_stopped);
                let _ = myself.send_message(GatewayMessage::IntentCompleted(attempt, queue_again));
            });
        }
    }

    /// All stops of an earlier daemon for an attempt are over: the requests that waited for them continue.
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

/// The open stops of each attempt: their keys, and whether they are by force.
fn of_attempts(open: Vec<(Key, Intent)>) -> BTreeMap<AttemptId, Vec<(Key, bool)>> {
    let mut stops: BTreeMap<AttemptId, Vec<(Key, bool)>> = BTreeMap::new();
    for (key, Intent::StopAttempt { attempt_id, force }) in open {
        stops.entry(attempt_id).or_default().push((key, force));
    }
    stops
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_stops_of_an_attempt_are_answered_together() {
        let ids = [AttemptId::new(), AttemptId::new()];
        let stop = |attempt_id: AttemptId, force| {
            let key = Key::new("stop_attempt", format!("{attempt_id} {force}"), &attempt_id);
            (key, Intent::StopAttempt { attempt_id, force })
        };
        let open = vec![stop(ids[0], false), stop(ids[1], false), stop(ids[0], true)];
        let keys: Vec<Key> = open.iter().map(|(key, _)| key.clone()).collect();
        let [one, other, second]: [Key; 3] = keys.try_into().unwrap();
        let expected =
            [(ids[0], vec![(one, false), (second, true)]), (ids[1], vec![(other, false)])];
        assert_eq!(of_attempts(open), BTreeMap::from(expected));
    }
}

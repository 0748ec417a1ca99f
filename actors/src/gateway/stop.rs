//! Stops: passed to the attempt's owner at once, answered to all callers, kept under their key.
//!
//! ```text
//!  Stop with a key ─▶ is the same one being carried out? ─yes─▶ wait for its answer
//!        │ no
//!        ▼
//!  write the intent, or wait 1 s ─▶ the owner stops the attempt ─▶ write the answer ─▶ answer ─▶ forget
//!        │ it had an answer on file                                         │
//!        └──▶ answer                                             that fails └──▶ answer, retry the write
//! ```
//!
//! A write that fails keeps no process alive: the intent gets a short head start, and an answer that is not
//! on file yet is kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::attempt::AttemptMessage;
use crate::blocking::lock;
use crate::event::ProcessStatus;
use crate::ids::AttemptId;
use crate::journal::{AttemptStopped, Begun, Idempotent, Intent, Key, Phase, recalled};
use crate::refusal::{Code, Refusal};
use crate::retry::while_store_fails;
use crate::world::World;

use super::message::{GatewayMessage, Port, StoppedAll};
use super::{GatewayState, owners, preview};

type StopAnswer = Result<Idempotent<AttemptStopped>, Refusal>;

/// The stops with a key whose answer is not on file yet, by tool and request id. A call that is made again
/// meanwhile waits for the first one's answer.
pub type KeyedStops = Arc<Mutex<HashMap<(&'static str, String), KeyedStop>>>;

/// A stop with a key that is being carried out.
pub struct KeyedStop {
    payload_hash: String,
    /// `None` while the stop is carried out.
    answer: watch::Receiver<Option<StopAnswer>>,
}

/// How long a stop waits for its intent to be written before it ends processes.
const HEAD_START: Duration = Duration::from_secs(1);

impl GatewayState {
    /// Passes a stop to the attempt's owner, in a task. Without a key it is simply made; a stop is
    /// idempotent.
    pub(super) fn stop(
        &self,
        key: Option<Key>,
        id: AttemptId,
        force: bool,
        port: Port<Idempotent<AttemptStopped>>,
    ) {
        let gateway = self.myself.clone();
        let Some(key) = key else {
            tokio::spawn(async move {
                let stopped = stop_by_owner(&gateway, id, force).await;
                let _ = port.send(stopped.map(fresh));
            });
            return;
        };
        let name = (key.tool, key.request_id.clone());
        // If the task of the first call panicked, its sender is gone, and there is no answer to wait for.
        let is_carried_out = |first: &&KeyedStop| first.answer.has_changed().is_ok();
        if let Some(first) = lock(&self.stops).get(&name).filter(is_carried_out) {
            if first.payload_hash != key.payload_hash {
                return drop(port.send(Err(key.conflict())));
            }
            let mut answer = first.answer.clone();
            tokio::spawn(async move {
                let answer = answer.wait_for(Option::is_some).await.map(|answer| answer.clone());
                // This fails only when the daemon ends; then the dropped port answers `shutting_down`.
                if let Ok(Some(answer)) = answer {
                    let again = answer.map(|answer| Idempotent { deduplicated: true, ..answer });
                    let _ = port.send(again);
                }
            });
            return;
        }
        let (answered, answer) = watch::channel(None);
        let payload_hash = key.payload_hash.clone();
        lock(&self.stops).insert(name.clone(), KeyedStop { payload_hash, answer });
        let (world, stops) = (Arc::clone(&self.world), Arc::clone(&self.stops));
        let call = Keyed { gateway, world, key, id, force };
        tokio::spawn(async move {
            let (answer, is_kept) = call.carry_out().await;
            answered.send_replace(Some(answer.clone()));
            let _ = port.send(answer.clone());
            if let (Ok(answer), false) = (&answer, is_kept) {
                let what = format!("attempt {id}: keeping the answer of a stop");
                let kept = while_store_fails(what, || call.keep(&answer.value)).await;
                if let Err(refusal) = kept {
                    tracing::error!(attempt = %id, %refusal, "the answer of a stop can't be kept");
                }
            }
            lock(&stops).remove(&name);
        });
    }

    /// Stops every owner, also of attempts that wait for a slot, and then all dev servers. Nothing starts
    /// from here on.
    pub(super) fn stop_all(&mut self, port: RpcReplyPort<StoppedAll>) {
        self.is_closing = true;
        let ids: Vec<AttemptId> = self.owners.keys().copied().collect();
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            let mut stops = tokio::task::JoinSet::new();
            for id in ids {
                let myself = myself.clone();
                stops.spawn(async move { (id, stop_by_owner(&myself, id, false).await) });
            }
            let mut all = StoppedAll::default();
            while let Some(stopped) = stops.join_next().await {
                if let Ok((id, stopped)) = stopped {
                    all.add(id, stopped);
                }
            }
            preview::end_all(&myself, &world).await;
            let _ = myself.send_message(GatewayMessage::StoppedAll(all, port));
        });
    }
}

impl StoppedAll {
    fn add(&mut self, attempt_id: AttemptId, stopped: Result<AttemptStopped, Refusal>) {
        let reason = match stopped {
            Ok(stopped) if stopped.survivors == 0 => {
                if stopped.unrecorded {
                    self.unrecorded.push(attempt_id);
                }
                return;
            }
            Ok(stopped) => format!("{} of its processes can't be killed", stopped.survivors),
            Err(refusal) => refusal.message,
        };
        tracing::error!(attempt = %attempt_id, reason, "an attempt was not stopped");
        self.alive.push((attempt_id, reason));
    }
}

fn fresh(value: AttemptStopped) -> Idempotent<AttemptStopped> {
    Idempotent { value, deduplicated: false }
}

/// A stop with a key, as its task carries it out.
struct Keyed {
    gateway: ActorRef<GatewayMessage>,
    world: Arc<World>,
    key: Key,
    id: AttemptId,
    force: bool,
}

impl Keyed {
    /// Carries the stop out once. Returns the answer, and whether it is on file. An intent that a crash
    /// left open is carried out again, which does no harm.
    async fn carry_out(&self) -> (StopAnswer, bool) {
        let journal = Arc::clone(&self.world.journal);
        let intent = Intent::StopAttempt { attempt_id: self.id, force: self.force };
        let key = self.key.clone();
        let mut beginning = tokio::spawn(async move { journal.begin(&key, &intent).await });
        let conflicts = |refusal: &Refusal| refusal.code == Code::IdempotencyConflict;
        let begun = match timeout(HEAD_START, &mut beginning).await {
            Ok(Ok(Err(refusal))) if conflicts(&refusal) => return (Err(refusal), true),
            Ok(Ok(Ok(begun))) => begun,
            // The intent can't be written in time. An earlier answer may be readable nevertheless.
            _ => match timeout(HEAD_START, self.world.journal.recall(&self.key)).await {
                Ok(Ok(Some(answer))) => Begun::Answered(answer),
                Ok(Err(refusal)) if conflicts(&refusal) => return (Err(refusal), true),
                _ => Begun::Go,
            },
        };
        if let Begun::Answered(answer) = begun {
            let answer = recalled(answer).map(|value| Idempotent { value, deduplicated: true });
            return (answer, true);
        }
        let stopped = stop_by_owner(&self.gateway, self.id, self.force).await;
        if !beginning.is_finished() {
            // Wait for the intent's write, so that it does not come after the answer's.
            let _ = beginning.await;
        }
        let mut stopped = match stopped {
            Ok(stopped) => stopped,
            Err(refusal) => {
                if let Err(fault) = self.world.journal.abandon(&self.key).await {
                    tracing::warn!(attempt = %self.id, %fault, "the intent of a refused stop can't be removed");
                }
                return (Err(refusal), true);
            }
        };
        // The first try may have stopped the attempt before the crash, so that this one found nothing to
        // stop.
        if begun == Begun::GoAgain && !stopped.stopped {
            stopped.stopped = was_stopped(&self.world, self.id).await;
        }
        let is_kept = self.keep(&stopped).await.is_ok();
        stopped.unrecorded |= !is_kept;
        (Ok(fresh(stopped)), is_kept)
    }

    async fn keep(&self, stopped: &AttemptStopped) -> Result<(), Refusal> {
        let answer =
            serde_json::to_value(stopped).map_err(|error| Refusal::internal(error.to_string()))?;
        self.world.journal.complete(&self.key, answer).await
    }
}

/// Whether a first try stopped the attempt, and died before it kept the answer.
async fn was_stopped(world: &World, id: AttemptId) -> bool {
    let attempt = world.journal.attempt(id).await.ok().flatten();
    attempt.is_some_and(|attempt| {
        let unqueued = attempt.process.status == ProcessStatus::Planned;
        attempt.phase == Phase::Idle
            || (attempt.phase == Phase::Settled && unqueued)
            || attempt.process.status == ProcessStatus::Killed
    })
}

async fn stop_by_owner(
    gateway: &ActorRef<GatewayMessage>,
    id: AttemptId,
    force: bool,
) -> Result<AttemptStopped, Refusal> {
    owners::ask_owner(gateway, id, false, |_, port| AttemptMessage::Stop { force, port }).await
}

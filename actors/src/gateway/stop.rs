//! Stops: handed to their owner at once, answered to all who asked, kept under
//! their key. What can't be written keeps no process alive: the intent has a head
//! start and no more, and an answer that is not on file yet is kept here.

use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};
use tokio::time::{sleep, timeout};

use crate::attempt;
use crate::event::ProcessStatus;
use crate::ids::AttemptId;
use crate::journal::{AttemptStopped, Begun, Intent, Key, Once, Phase, recalled};
use crate::refusal::{Code, Refusal};
use crate::world::World;

use super::flights::Boarding;
use super::message::{Message, Port, StillAlive, StoppedAll};
use super::{State, owners};

type StopPort = Port<Once<AttemptStopped>>;
type StopAnswer = Result<Once<AttemptStopped>, Refusal>;

/// How long a stop waits at most for its intent to be written before it ends processes:
/// enough for a disk that works, so that the next daemon carries through a stop that
/// was cut off. A write that is refused is not waited for.
const HEAD_START: Duration = Duration::from_secs(1);
/// Between tries to keep an answer.
const RETRY: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn stop(&mut self, key: Option<Key>, id: AttemptId, force: bool, port: StopPort) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        let Some(key) = key else {
            tokio::spawn(async move {
                let _ = port.send(bring_about(&myself, id, force).await.map(fresh));
            });
            return;
        };
        match self.stops.board(&key, port) {
            Boarding::Joined => {}
            Boarding::Conflict(port, refusal) => drop(port.send(Err(refusal))),
            Boarding::Answered(port, answer) => drop(port.send(again(&answer))),
            Boarding::First(port) => {
                tokio::spawn(async move {
                    let call = Keyed { gateway: myself, world, key, id, force };
                    let (answer, is_kept) = call.carry().await;
                    let _ = port.send(answer.clone());
                    let stopped = Message::Stopped(call.key.clone(), answer.clone(), is_kept);
                    let _ = call.gateway.send_message(stopped);
                    if let (Ok(answer), false) = (&answer, is_kept) {
                        call.keep_at_last(&answer.value).await;
                    }
                });
            }
        }
    }

    /// A keyed stop is over: all who joined it are answered.
    pub(super) fn stopped(&mut self, key: &Key, answer: &StopAnswer, is_kept: bool) {
        let unkept = (!is_kept).then(|| answer.clone());
        for port in self.stops.land(key, unkept) {
            let _ = port.send(again(answer));
        }
    }

    /// Empties the queue and stops every owner. Nothing is started from here on.
    pub(super) fn stop_all(&mut self, port: RpcReplyPort<StoppedAll>) {
        self.is_closing = true;
        let ids: Vec<AttemptId> = self.owners.keys().copied().collect();
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let mut stops = tokio::task::JoinSet::new();
            for id in ids {
                let myself = myself.clone();
                stops.spawn(async move { (id, bring_about(&myself, id, false).await) });
            }
            let mut all = StoppedAll::default();
            while let Some(stopped) = stops.join_next().await {
                if let Ok((id, stopped)) = stopped {
                    all.add(id, stopped);
                }
            }
            let _ = myself.send_message(Message::StoppedAll(all, port));
        });
    }

    /// Answers when no start is under way any more.
    pub(super) fn stopped_all(&mut self, all: StoppedAll, port: RpcReplyPort<StoppedAll>) {
        if self.starting > 0 {
            return self.closing.push(port);
        }
        let _ = port.send(all);
    }

    /// The daemon does not end after all.
    pub(super) fn go_on(&mut self) {
        self.is_closing = false;
        self.grant();
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
        tracing::error!(attempt = %attempt_id, reason, "not stopped");
        self.alive.push(StillAlive { attempt_id, reason });
    }
}

fn fresh(value: AttemptStopped) -> Once<AttemptStopped> {
    Once { value, deduplicated: false }
}

/// The answer for one who asked for the same as somebody before.
fn again(answer: &StopAnswer) -> StopAnswer {
    answer.clone().map(|answer| Once { deduplicated: true, ..answer })
}

/// A stop under a key.
struct Keyed {
    gateway: ActorRef<Message>,
    world: Arc<World>,
    key: Key,
    id: AttemptId,
    force: bool,
}

impl Keyed {
    /// Brings it about once, and says whether its answer is on file. An intent that a
    /// crash left open is brought about again; a stop is idempotent.
    async fn carry(&self) -> (StopAnswer, bool) {
        let journal = Arc::clone(&self.world.journal);
        let (key, intent) =
            (self.key.clone(), Intent::StopAttempt { attempt_id: self.id, force: self.force });
        let mut beginning = tokio::spawn(async move { journal.begin(&key, &intent).await });
        let begun = match timeout(HEAD_START, &mut beginning).await {
            Ok(Ok(Err(refusal))) if refusal.code == Code::IdempotencyConflict => {
                return (Err(refusal), true);
            }
            Ok(Ok(Ok(begun))) => begun,
            // It can't be written, or not soon; what is there may be read.
            _ => match timeout(HEAD_START, self.world.journal.recall(&self.key)).await {
                Ok(Ok(Some(answer))) => Begun::Answered(answer),
                Ok(Err(refusal)) if refusal.code == Code::IdempotencyConflict => {
                    return (Err(refusal), true);
                }
                _ => Begun::Go,
            },
        };
        if let Begun::Answered(answer) = begun {
            let answer = recalled(answer).map(|value| Once { value, deduplicated: true });
            return (answer, true);
        }
        let stopped = bring_about(&self.gateway, self.id, self.force).await;
        if !beginning.is_finished() {
            // So that the intent is not written over the answer.
            let _ = beginning.await;
        }
        match stopped {
            Ok(mut stopped) => {
                if begun == Begun::GoAgain && !stopped.stopped {
                    stopped.stopped = was_stopped(&self.world, self.id).await;
                }
                let is_kept = self.keep(&stopped).await.is_ok();
                stopped.unrecorded |= !is_kept;
                (Ok(fresh(stopped)), is_kept)
            }
            Err(refusal) => {
                if let Err(fault) = self.world.journal.abandon(&self.key).await {
                    tracing::warn!(attempt = %self.id, %fault, "the intent of a stop stays");
                }
                (Err(refusal), true)
            }
        }
    }

    async fn keep(&self, stopped: &AttemptStopped) -> Result<(), Refusal> {
        let answer =
            serde_json::to_value(stopped).map_err(|error| Refusal::internal(error.to_string()))?;
        self.world.journal.complete(&self.key, answer).await
    }

    /// Keeps an answer that was given already, as soon as that can be done.
    async fn keep_at_last(&self, stopped: &AttemptStopped) {
        loop {
            sleep(RETRY).await;
            match self.keep(stopped).await {
                Err(refusal) if refusal.code.retryable() => {}
                Ok(()) => break,
                Err(refusal) => {
                    tracing::error!(attempt = %self.id, %refusal, "an answer is not kept");
                    break;
                }
            }
        }
        // Fails only when the daemon ends.
        let _ = self.gateway.send_message(Message::Kept(self.key.clone()));
    }
}

/// Whether a stop ended it: a first try that came to its end, not to its answer.
async fn was_stopped(world: &World, id: AttemptId) -> bool {
    let attempt = world.journal.attempt(id).await.ok().flatten();
    attempt.is_some_and(|attempt| {
        let unqueued = attempt.process.status == ProcessStatus::Planned;
        attempt.phase == Phase::Idle
            || (attempt.phase == Phase::Settled && unqueued)
            || attempt.process.status == ProcessStatus::Killed
    })
}

async fn bring_about(
    gateway: &ActorRef<Message>,
    id: AttemptId,
    force: bool,
) -> Result<AttemptStopped, Refusal> {
    owners::ask(gateway, id, false, |_, reply| attempt::Message::Stop { force, reply }).await
}

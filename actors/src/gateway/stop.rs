//! Stops: handed to their owner, kept under their key, answered to all who asked.

use std::sync::Arc;

use ractor::{ActorRef, RpcReplyPort};

use crate::attempt;
use crate::event::ProcessStatus;
use crate::ids::AttemptId;
use crate::journal::{Answer, AttemptStopped, Begun, Intent, Key, Phase, recalled};
use crate::refusal::Refusal;
use crate::world::World;

use super::flights::Boarding;
use super::message::{Message, Port};
use super::{State, owners};

type StopPort = Port<Answer<AttemptStopped>>;

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
            Boarding::First(port) => {
                tokio::spawn(async move {
                    let answer = keyed(&myself, &world, &key, id, force).await;
                    let _ = port.send(answer.clone());
                    let _ = myself.send_message(Message::Stopped(key, answer));
                });
            }
        }
    }

    pub(super) fn stopped(&mut self, key: &Key, answer: &Result<Answer<AttemptStopped>, Refusal>) {
        for port in self.stops.land(key) {
            let mut answer = answer.clone();
            if let Ok(answer) = &mut answer {
                answer.deduplicated = true;
            }
            let _ = port.send(answer);
        }
    }

    /// Empties the queue and stops every owner; answers when all have stopped.
    /// Nothing is started from here on.
    pub(super) fn stop_all(&mut self, port: RpcReplyPort<()>) {
        self.is_closing = true;
        if self.starting > 0 {
            return self.closing.push(port);
        }
        let ids: Vec<AttemptId> = self.owners.keys().copied().collect();
        let myself = self.myself.clone();
        tokio::spawn(async move {
            let mut stops = tokio::task::JoinSet::new();
            for id in ids {
                let myself = myself.clone();
                stops.spawn(async move { (id, bring_about(&myself, id, false).await) });
            }
            while let Some(stopped) = stops.join_next().await {
                if let Ok((id, Err(refusal))) = stopped {
                    tracing::error!(attempt = %id, %refusal, "not stopped");
                }
            }
            let _ = port.send(());
        });
    }
}

fn fresh(value: AttemptStopped) -> Answer<AttemptStopped> {
    Answer { value, deduplicated: false }
}

/// A stop under a key: its intent is written first, its answer kept after. An
/// intent that a crash left open is brought about again; a stop is idempotent.
async fn keyed(
    gateway: &ActorRef<Message>,
    world: &World,
    key: &Key,
    id: AttemptId,
    force: bool,
) -> Result<Answer<AttemptStopped>, Refusal> {
    let intent = Intent::StopAttempt { attempt_id: id, force };
    let is_again = match world.journal.begin(key, &intent).await? {
        Begun::Answered(answer) => {
            return Ok(Answer { value: recalled(answer)?, deduplicated: true });
        }
        Begun::GoAgain => true,
        Begun::Go => false,
    };
    match bring_about(gateway, id, force).await {
        Ok(mut stopped) => {
            if is_again && !stopped.stopped {
                stopped.stopped = was_stopped(world, id).await?;
            }
            let answer = serde_json::to_value(&stopped)
                .map_err(|error| Refusal::internal(error.to_string()))?;
            world.journal.complete(key, answer).await?;
            Ok(fresh(stopped))
        }
        Err(refusal) => {
            world.journal.abandon(key).await?;
            Err(refusal)
        }
    }
}

/// Whether a stop ended it: a first try that came to its end, not to its answer.
async fn was_stopped(world: &World, id: AttemptId) -> Result<bool, Refusal> {
    let attempt = world.journal.attempt(id).await?;
    Ok(attempt.is_some_and(|attempt| {
        let unqueued = attempt.process.status == ProcessStatus::Planned;
        attempt.phase == Phase::Idle
            || (attempt.phase == Phase::Settled && unqueued)
            || attempt.process.status == ProcessStatus::Killed
    }))
}

async fn bring_about(
    gateway: &ActorRef<Message>,
    id: AttemptId,
    force: bool,
) -> Result<AttemptStopped, Refusal> {
    owners::ask(gateway, id, false, |_, reply| attempt::Message::Stop { force, reply }).await
}

//! Stops: found their owner, kept under their key, answered to all who asked.

use std::sync::Arc;

use ractor::{ActorRef, RpcReplyPort};

use crate::attempt;
use crate::event::ProcessStatus;
use crate::ids::AttemptId;
use crate::journal::{
    Answer, Attempt, AttemptStopped, Begun, Change, Intent, Key, Phase, State as Standing, recalled,
};
use crate::refusal::{Code, Refusal};
use crate::world::World;

use super::State;
use super::flights::Boarding;
use super::message::{Message, Port, Route};

type StopPort = Port<Answer<AttemptStopped>>;

impl State {
    pub(super) fn stop(&mut self, key: Option<Key>, id: AttemptId, force: bool, port: StopPort) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        let Some(key) = key else {
            tokio::spawn(async move {
                let _ = port.send(bring_about(&myself, &world, id, force).await.map(fresh));
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

    pub(super) fn route(&mut self, id: AttemptId, port: RpcReplyPort<Route>) {
        let route = if let Some(owner) = self.owners.get(&id) {
            Route::Owner(owner.clone())
        } else if let Some(attempt) = self.waiting.remove(&id) {
            self.admission.leave(id);
            Route::Unqueued(Box::new(attempt))
        } else {
            Route::Nobody
        };
        let _ = port.send(route);
    }

    /// Empties the queue and stops every owner; answers when all have stopped.
    /// Nothing is started from here on.
    pub(super) fn stop_all(&mut self, port: RpcReplyPort<()>) {
        self.is_closing = true;
        let ids: Vec<AttemptId> = self.waiting.keys().chain(self.owners.keys()).copied().collect();
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            let mut stops = tokio::task::JoinSet::new();
            for id in ids {
                let (myself, world) = (myself.clone(), Arc::clone(&world));
                stops.spawn(async move { (id, bring_about(&myself, &world, id, false).await) });
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
    match bring_about(gateway, world, id, force).await {
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
        attempt.phase == Phase::Idle || attempt.process.status == ProcessStatus::Killed
    }))
}

async fn bring_about(
    gateway: &ActorRef<Message>,
    world: &World,
    id: AttemptId,
    force: bool,
) -> Result<AttemptStopped, Refusal> {
    let going = || Refusal::new(Code::ShuttingDown, "the daemon is ending");
    let route = ractor::call!(gateway, |port| Message::Route(id, port)).map_err(|_| going())?;
    match route {
        Route::Owner(owner) => {
            match ractor::call!(owner, |reply| attempt::Message::Stop { force, reply }) {
                Ok(answer) => answer,
                // Its last process was gone, and so the owner went, meanwhile.
                Err(_) => nothing_to_stop(world, id, force).await,
            }
        }
        Route::Unqueued(attempt) => {
            let process = attempt.process.process_id;
            let change = Change::Unqueued;
            if let Err(refusal) = world.journal.advance(id, attempt.epoch, process, &change).await {
                // It is as it was: written down as queued, so it waits again.
                let _ = gateway.send_message(Message::Requeue(attempt));
                return Err(refusal);
            }
            let idle = (Phase::Idle, Standing::Idle);
            Ok(AttemptStopped { stopped: true, ..answer_without_process(&attempt, idle, force) })
        }
        Route::Nobody => nothing_to_stop(world, id, force).await,
    }
}

async fn nothing_to_stop(
    world: &World,
    id: AttemptId,
    force: bool,
) -> Result<AttemptStopped, Refusal> {
    let Some(attempt) = world.journal.attempt(id).await? else {
        return Err(Refusal::new(Code::AttemptNotFound, format!("there is no attempt {id}"))
            .detail("attempt_id", id.to_string()));
    };
    if attempt.phase.is_active() {
        let message = format!("attempt {id} is {:?} and has no owner", attempt.phase);
        return Err(Refusal::internal(message)
            .hint("Restart the daemon: it takes up every attempt. Then call stop_attempt again."));
    }
    let standing = (attempt.phase, attempt.state);
    let mut answer = answer_without_process(&attempt, standing, force);
    if attempt.phase == Phase::Settled {
        answer.execution_process_id = Some(attempt.process.process_id);
    }
    Ok(answer)
}

fn answer_without_process(
    attempt: &Attempt,
    (phase, state): (Phase, Standing),
    forced: bool,
) -> AttemptStopped {
    AttemptStopped {
        attempt_id: attempt.attempt_id,
        execution_process_id: None,
        stopped: false,
        state,
        phase,
        forced,
        signals: vec![],
        exit_code: attempt.process.exit_code,
        exit_signal: attempt.process.exit_signal,
        survivors: 0,
    }
}

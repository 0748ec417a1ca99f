//! Starts: checked, admitted, written down, run; and what happens when a slot
//! comes free or an earlier daemon's attempts are taken up.

use std::sync::Arc;

use crate::attempt::Begin;
use crate::ids::AttemptId;
use crate::journal::{Answer, Attempt, AttemptStarted, Change, Key, Phase, State as Standing};
use crate::refusal::{Code, Refusal};

use super::message::{Left, Message, Port, StartRequest};
use super::resolve::{Resolved, resolve};
use super::{State, check};

impl State {
    pub(super) fn start(
        &self,
        key: Option<Key>,
        request: StartRequest,
        port: Port<Answer<AttemptStarted>>,
    ) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            let checking = check::start(&world, &request);
            let payload = |attempt: &Attempt| check::payload(&world, attempt, &request);
            match resolve(&*world.journal, key, checking, payload).await {
                Ok(Resolved::Before(answer)) => drop(port.send(Ok(answer))),
                Ok(Resolved::Now(key, attempt)) => {
                    // Fails only when the daemon ends; the dropped port answers.
                    let _ = myself.send_message(Message::Checked(key, Box::new(attempt), port));
                }
                Err(refusal) => drop(port.send(Err(refusal))),
            }
        });
    }

    pub(super) fn checked(
        &mut self,
        key: Option<Key>,
        mut attempt: Attempt,
        port: Port<Answer<AttemptStarted>>,
    ) {
        if self.is_closing {
            let _ = port.send(Err(Refusal::new(Code::ShuttingDown, "the daemon is ending")));
            return;
        }
        if self.admission.offer(attempt.attempt_id, attempt.priority) {
            attempt.phase = Phase::Preparing;
            attempt.state = Standing::Running;
        }
        let answer = AttemptStarted {
            attempt_id: attempt.attempt_id,
            task_id: attempt.task_id,
            workspace_branch: attempt.branch.clone(),
            session_id: attempt.session_id,
            execution_process_id: attempt.phase.is_active().then_some(attempt.process.process_id),
            state: attempt.state,
            phase: attempt.phase,
        };
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            let recorded = journal.record_start(key.as_ref(), &attempt, &answer).await;
            let _ = myself.send_message(Message::Recorded(Box::new(attempt), recorded, port));
        });
    }

    pub(super) async fn recorded(
        &mut self,
        attempt: Attempt,
        answer: Result<Answer<AttemptStarted>, Refusal>,
        port: Port<Answer<AttemptStarted>>,
    ) {
        let id = attempt.attempt_id;
        match &answer {
            Ok(Answer { deduplicated: false, .. }) if self.admission.is_waiting(id) => {
                self.waiting.insert(id, attempt);
                self.admission.recorded(id);
            }
            Ok(Answer { deduplicated: false, .. }) => self.own(attempt, Begin::New).await,
            // The same call came first, or this one may not be: the slot is free again.
            Ok(_) | Err(_) => {
                self.admission.leave(id);
            }
        }
        let _ = port.send(answer);
        self.grant().await;
    }

    pub(super) async fn slot_freed(&mut self, attempt: AttemptId) {
        self.admission.leave(attempt);
        self.grant().await;
    }

    pub(super) async fn requeue(&mut self, attempt: Attempt) {
        self.admission.queue(attempt.attempt_id, attempt.priority);
        self.waiting.insert(attempt.attempt_id, attempt);
        self.grant().await;
    }

    /// Lets the first in the queue run while slots are free.
    pub(super) async fn grant(&mut self) {
        while !self.is_closing
            && let Some(id) = self.admission.next()
        {
            let Some(mut attempt) = self.waiting.remove(&id) else { continue };
            attempt.phase = Phase::Preparing;
            attempt.state = Standing::Running;
            let process = attempt.process.process_id;
            let change = Change::Preparing;
            let written = self.world.journal.advance(id, attempt.epoch, process, &change).await;
            if let Err(refusal) = written {
                // It runs all the same: after a restart it would only run from the queue.
                tracing::error!(attempt = %id, %refusal, "its leaving the queue isn't written down");
            }
            self.own(attempt, Begin::New).await;
        }
    }

    pub(super) fn restore(&self, port: Port<usize>) {
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            let left = async {
                let attempts = journal.unsettled().await?;
                Ok(Left { attempts, intents: journal.open_intents().await? })
            };
            let _ = myself.send_message(Message::Restored(left.await, port));
        });
    }

    pub(super) async fn restored(&mut self, left: Result<Left, Refusal>, port: Port<usize>) {
        let Left { attempts, intents } = match left {
            Ok(left) => left,
            Err(refusal) => return drop(port.send(Err(refusal))),
        };
        let count = attempts.len();
        for attempt in attempts {
            let id = attempt.attempt_id;
            if attempt.phase == Phase::Queued {
                self.admission.queue(id, attempt.priority);
                self.waiting.insert(id, attempt);
                continue;
            }
            if attempt.phase.is_active() {
                self.admission.occupy(id);
            }
            self.own(attempt, Begin::Resume).await;
        }
        self.carry_through(intents);
        self.grant().await;
        let _ = port.send(Ok(count));
    }
}

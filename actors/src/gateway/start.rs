//! Checked starts: admitted, written down, run; and the granting of slots.

use std::sync::Arc;

use crate::attempt::{AttemptMessage, Begin};
use crate::ids::AttemptId;
use crate::journal::{Attempt, AttemptStarted, Key, Once, Phase, Priority, State};
use crate::refusal::Refusal;

use super::message::{GatewayMessage, Port};
use super::{GatewayState, ending};

type StartPort = Port<Once<AttemptStarted>>;

impl GatewayState {
    pub(super) fn start(&mut self, key: Option<Key>, mut attempt: Attempt, port: StartPort) {
        if self.is_closing {
            return drop(port.send(Err(ending())));
        }
        if attempt.is_answer {
            self.admission.answers(attempt.attempt_id);
        }
        if self.admission.take(attempt.attempt_id) {
            (attempt.phase, attempt.state) = (Phase::Preparing, State::Running);
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
        self.starting += 1;
        let (myself, journal) = (self.myself.clone(), Arc::clone(&self.world.journal));
        tokio::spawn(async move {
            let recorded = journal.record_start(key.as_ref(), &attempt, &answer).await;
            let _ =
                myself.send_message(GatewayMessage::Recorded(Box::new(attempt), recorded, port));
        });
    }

    pub(super) async fn recorded(
        &mut self,
        attempt: Attempt,
        answer: Result<Once<AttemptStarted>, Refusal>,
        port: StartPort,
    ) {
        let (id, priority, phase) = (attempt.attempt_id, attempt.priority, attempt.phase);
        match &answer {
            Ok(Once { deduplicated: false, .. }) => {
                self.own(attempt, Begin::New).await;
                if phase == Phase::Queued {
                    self.admission.queue(id, priority);
                }
            }
            // The same call came first, or this one was refused: the slot is free again.
            Ok(_) | Err(_) => self.admission.forget(id),
        }
        let _ = port.send(answer);
        self.grant();
        self.starting = self.starting.saturating_sub(1);
        if self.starting == 0 {
            // Those starts have owners now, which have to be stopped as well.
            for port in std::mem::take(&mut self.closing) {
                self.stop_all(port);
            }
        }
    }

    /// A turn waits for its slot. It is written down and has an owner.
    pub(super) fn slot_wanted(&mut self, attempt: AttemptId, priority: Priority) {
        self.admission.queue(attempt, priority);
        self.grant();
    }

    pub(super) fn slot_freed(&mut self, attempt: AttemptId) {
        self.admission.leave(attempt);
        self.grant();
    }

    /// Lets the first in the queue run while slots are free.
    pub(super) fn grant(&mut self) {
        while !self.is_closing
            && let Some(id) = self.admission.next()
        {
            let owner = self.owners.get(&id);
            let granted = owner.is_some_and(|it| it.send_message(AttemptMessage::Granted).is_ok());
            // An owner that has failed asks again when it has been rebuilt.
            if !granted {
                self.admission.leave(id);
            }
        }
    }
}

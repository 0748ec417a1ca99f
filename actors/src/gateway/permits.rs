//! What attempts ask for beside a slot, and the limits of executors. Where hosts share a board, the
//! attempts of all hosts count for such a limit, so an attempt of such an executor begins only with a
//! permit of the board.

use std::sync::Arc;

use super::GatewayState;
use super::admission::Asks;
use super::claim::{UnderWay, max_running};
use super::message::GatewayMessage;
use crate::ids::AttemptId;
use crate::journal::Attempt;

impl GatewayState {
    /// What an attempt asks for. An answer asks for nothing: its asker runs, and would wait for ever.
    pub(super) fn asks(&self, attempt: &Attempt) -> Asks {
        let executor = self.world.executors.get(&attempt.executor).filter(|_| !attempt.is_answer);
        Asks {
            executor: attempt.executor.clone(),
            memory: attempt.memory,
            max_running: executor.and_then(|it| it.max_running()),
        }
    }

    /// Asks the board which of the attempts that wait here for their executors' limits may begin. One
    /// question at a time; what changes meanwhile is asked for afterwards.
    pub(super) fn ask_for_permits(&mut self) {
        let unpermitted = self.admission.unpermitted();
        if self.is_closing || unpermitted.is_empty() {
            return;
        }
        if self.permits != UnderWay::None {
            self.permits = UnderWay::Another;
            return;
        }
        self.permits = UnderWay::One;
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            let admitted = world.journal.admit(&unpermitted, &max_running(&world)).await;
            let admitted = admitted.unwrap_or_else(|refusal| {
                tracing::debug!(%refusal, "no attempt could be let begin");
                Vec::new()
            });
            let _ = myself.send_message(GatewayMessage::Admitted(admitted));
        });
    }

    /// The board has answered. Attempts without a permit are asked for again when something changes here,
    /// and after each renewal of the lease.
    pub(super) fn admitted(&mut self, attempts: &[AttemptId]) {
        for attempt in attempts {
            self.admission.permit(*attempt);
        }
        self.grant();
        if std::mem::take(&mut self.permits) == UnderWay::Another {
            self.ask_for_permits();
        }
    }
}

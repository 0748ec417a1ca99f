//! What attempts ask for beside a slot, and the limits of executors: where hosts share a board, the
//! attempts of all of them count, so an attempt of such an executor begins once the board has let it.

use std::sync::Arc;

use super::GatewayState;
use super::admission::Asks;
use super::claim::{UnderWay, max_running};
use super::message::GatewayMessage;
use crate::ids::AttemptId;
use crate::journal::Attempt;

impl GatewayState {
    /// An answer asks for nothing: who asked for it runs, and waits for it.
    pub(super) fn asks(&self, attempt: &Attempt) -> Asks {
        let executor = self.world.executors.get(&attempt.executor).filter(|_| !attempt.is_answer);
        Asks {
            executor: attempt.executor.clone(),
            memory: attempt.memory,
            max_running: executor.and_then(|it| it.max_running()),
        }
    }

    /// Asks the board for those that wait here because of their executors' limits.
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

    /// Those that were not let are asked for again when something has changed, or the lease was renewed.
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

//! Intents that a dead daemon left open: calls that were not completed. Each is made
//! again under its key, without a caller; a client that retries joins it, or finds its
//! answer.

use std::collections::HashMap;

use ractor::concurrency::oneshot;

use crate::ids::AttemptId;
use crate::journal::{Intent, Key, Priority};

use super::GatewayState;
use super::message::GatewayMessage;

impl GatewayState {
    /// To be called when every attempt has its owner again. Until such a stop has been
    /// answered, nothing of its attempt begins: neither a turn that waits for a slot,
    /// which would run for a moment, nor a follow-up, which came after the stop.
    pub(super) fn carry_through(
        &mut self,
        open: Vec<(Key, Intent)>,
        waiting: &HashMap<AttemptId, Priority>,
    ) {
        for (key, intent) in open {
            let Intent::StopAttempt { attempt_id, force } = intent;
            let held_back = waiting.get(&attempt_id).copied();
            if held_back.is_some() {
                self.admission.leave(attempt_id);
            }
            self.carrying.insert(attempt_id, Vec::new());
            let (port, answer) = oneshot();
            self.stop(Some(key), attempt_id, force, port.into());
            let myself = self.myself.clone();
            tokio::spawn(async move {
                let queue_again = match answer.await {
                    Ok(Ok(_)) => {
                        tracing::info!(?intent, "an earlier daemon's intent carried through");
                        None
                    }
                    // Dropped: its caller retries.
                    Ok(Err(refusal)) => {
                        tracing::warn!(?intent, %refusal, "an intent was dropped");
                        held_back
                    }
                    Err(_) => held_back,
                };
                let _ = myself.send_message(GatewayMessage::Carried(attempt_id, queue_again));
            });
        }
    }

    /// A stop of an earlier daemon is over; the requests that waited for it go on.
    pub(super) fn carried(&mut self, id: AttemptId, queue_again: Option<Priority>) {
        if let Some(priority) = queue_again {
            self.slot_wanted(id, priority);
        }
        for request in self.carrying.remove(&id).unwrap_or_default() {
            self.owner(id, request);
        }
    }
}

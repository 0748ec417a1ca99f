//! Intents that a dead daemon left open: what had been asked for and not
//! answered yet. Each is the call itself, made once more under its key with
//! nobody listening; so a client that asks again joins it, or finds its answer.

use std::collections::HashMap;

use ractor::concurrency::oneshot;

use crate::ids::AttemptId;
use crate::journal::{Intent, Key, Priority};

use super::State;
use super::message::Message;

impl State {
    /// To be called when every attempt has its owner again. Until a stop that is
    /// carried through has been answered, nothing of its attempt begins: neither
    /// what waits for a slot, which would run for a moment, nor a follow-up, which
    /// the stop is not about.
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
                    // Refused, it is dropped: its caller asks again.
                    Ok(Err(refusal)) => {
                        tracing::warn!(?intent, %refusal, "an intent was dropped");
                        held_back
                    }
                    Err(_) => held_back,
                };
                let _ = myself.send_message(Message::Carried(attempt_id, queue_again));
            });
        }
    }

    /// A stop has been carried through; what waited for that goes on.
    pub(super) fn carried(&mut self, id: AttemptId, queue_again: Option<Priority>) {
        if let Some(priority) = queue_again {
            self.slot_wanted(id, priority);
        }
        for asked in self.carrying.remove(&id).unwrap_or_default() {
            self.owner(id, asked);
        }
    }
}

//! Intents that a dead daemon left open: what had been asked for and not
//! answered yet. Each is the call itself, made once more under its key with
//! nobody listening; so a client that asks again joins it, or finds its answer.

use std::collections::HashMap;

use ractor::concurrency::oneshot;

use crate::attempt::Notice;
use crate::ids::AttemptId;
use crate::journal::{Intent, Key, Priority};

use super::State;
use super::message::Message;

impl State {
    /// To be called when every attempt has its owner again. One that waits for a
    /// slot and is to be stopped gets none meanwhile: it would run for a moment.
    pub(super) fn carry_through(
        &mut self,
        open: Vec<(Key, Intent)>,
        waiting: &HashMap<AttemptId, Priority>,
    ) {
        for (key, intent) in open {
            match intent {
                Intent::StopAttempt { attempt_id, force } => {
                    let held_back = waiting.get(&attempt_id).copied();
                    if held_back.is_some() {
                        self.admission.leave(attempt_id);
                    }
                    let (port, answer) = oneshot();
                    self.stop(Some(key), attempt_id, force, port.into());
                    let myself = self.myself.clone();
                    tokio::spawn(async move {
                        let is_done = match answer.await {
                            Ok(Ok(_)) => true,
                            // Refused, it is dropped: its caller asks again.
                            Ok(Err(refusal)) => {
                                tracing::warn!(?intent, %refusal, "an intent was dropped");
                                false
                            }
                            Err(_) => false,
                        };
                        if is_done {
                            tracing::info!(?intent, "an earlier daemon's intent carried through");
                        } else if let Some(priority) = held_back {
                            let wanted = Notice::SlotWanted(attempt_id, priority);
                            let _ = myself.send_message(Message::Notice(wanted));
                        }
                    });
                }
            }
        }
    }
}

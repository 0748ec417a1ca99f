//! Intents that a dead daemon left open: what had been asked for and not
//! answered yet. Each is the call itself, made once more under its key with
//! nobody listening; so a client that asks again joins it, or finds its answer.

use ractor::concurrency::oneshot;

use crate::journal::{Intent, Key};
use crate::refusal::Refusal;

use super::State;

impl State {
    /// To be called when every attempt has its owner again.
    pub(super) fn carry_through(&mut self, open: Vec<(Key, Intent)>) {
        for (key, intent) in open {
            match intent {
                Intent::StopAttempt { attempt_id, force } => {
                    let (port, answer) = oneshot();
                    self.stop(Some(key), attempt_id, force, port.into());
                    tokio::spawn(async move { tell(intent, answer.await.ok()) });
                }
            }
        }
    }
}

/// A refusal has dropped the intent; it is a call's, so its caller asks again.
fn tell<T>(intent: Intent, answer: Option<Result<T, Refusal>>) {
    match answer {
        Some(Ok(_)) => tracing::info!(?intent, "an earlier daemon's intent carried through"),
        Some(Err(refusal)) => tracing::warn!(?intent, %refusal, "an intent was dropped"),
        None => tracing::debug!(?intent, "the daemon ends before an intent was carried through"),
    }
}

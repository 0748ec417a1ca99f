//! The gateway as the supervisor of attempts: one for one. An actor that fails is rebuilt
//! from disk, as after a restart of the daemon; one that keeps failing is left alone, its
//! processes unharmed, until the next restart.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, SupervisionEvent};

use crate::attempt::{Arguments, AttemptActor, Begin};
use crate::ids::AttemptId;
use crate::journal::Attempt;

use super::GatewayState;
use super::message::GatewayMessage;

/// More failures than this within the window, and the attempt is given up.
const MAX_FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_mins(1);
/// Before a row that could not be read is read again; slow enough never to count
/// as failing again and again.
const REREAD: Duration = Duration::from_secs(15);

/// When the actors of which attempts failed.
#[derive(Debug, Default)]
pub struct Failures(HashMap<AttemptId, Vec<Instant>>);

impl Failures {
    /// Counts a failure. `true`: try again.
    fn count(&mut self, attempt: AttemptId, now: Instant) -> bool {
        let times = self.0.entry(attempt).or_default();
        times.retain(|&time| now.duration_since(time) < WINDOW);
        times.push(now);
        times.len() <= MAX_FAILURES
    }
}

impl GatewayState {
    /// Gives an attempt its actor.
    pub(super) async fn own(&mut self, attempt: Attempt, begin: Begin) {
        let id = attempt.attempt_id;
        if attempt.is_answer {
            self.admission.answers(id);
        }
        let events = self.myself.get_derived();
        let arguments = Arguments { attempt, begin, world: Arc::clone(&self.world), events };
        let supervisor = self.myself.get_cell();
        match Actor::spawn_linked(None, AttemptActor, arguments, supervisor).await {
            Ok((owner, _)) => {
                self.owners.insert(id, owner);
            }
            Err(error) => {
                tracing::error!(attempt = %id, %error, "an attempt's actor can't be started");
            }
        }
    }

    pub(super) fn child_event(&mut self, event: SupervisionEvent) {
        match event {
            SupervisionEvent::ActorFailed(child, error) => {
                let failed = self.owners.iter().find(|(_, owner)| owner.get_id() == child.get_id());
                let Some((&id, _)) = failed else { return };
                tracing::error!(attempt = %id, %error, "an attempt's actor failed");
                let _ = self.myself.send_message(GatewayMessage::Failed(id));
            }
            SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
    }

    pub(super) fn failed(&mut self, id: AttemptId) {
        self.owners.remove(&id);
        if !self.failures.count(id, Instant::now()) {
            tracing::error!(attempt = %id, "an attempt's actor keeps failing; it is left as it is");
            return;
        }
        if let Entry::Vacant(loading) = self.loading.entry(id) {
            loading.insert(Vec::new());
            self.load(id, Some(REREAD));
        }
    }

    pub(super) fn ended(&mut self, id: AttemptId) {
        self.owners.remove(&id);
        self.failures.0.remove(&id);
        // It held no slot; but one may have been taken for a call that it will not get.
        // That call is tried again and takes another one, or waits.
        self.admission.forget(id);
        self.grant();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_that_fails_now_and_then_is_always_rebuilt_and_one_that_keeps_failing_is_not() {
        let id = AttemptId::new();
        let start = Instant::now();
        let mut failures = Failures::default();
        let rarely = |n| start + WINDOW * n;
        assert!((0..20).all(|n| failures.count(id, rarely(n))));
        let mut failures = Failures::default();
        let often: Vec<bool> =
            (0..7).map(|n| failures.count(id, start + Duration::from_secs(n))).collect();
        assert_eq!(often, [true, true, true, true, true, false, false]);
    }
}

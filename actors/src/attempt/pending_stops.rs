//! The stops under way: each goes to every turn of which something may be alive, and is
//! answered when all of these have answered. Pure.

use std::collections::HashMap;

use crate::event::ProcessStatus;
use crate::ids::ProcessId;
use crate::journal::{Attempt, AttemptStopped, Phase};

use super::lifecycle::TurnStopped;
use super::message::StopPort;

/// All callers that wait, as one stop: they get one answer.
#[derive(Default)]
pub struct PendingStops {
    /// The callers.
    ports: Vec<StopPort>,
    /// The processes that were asked, oldest first.
    asked: Vec<ProcessId>,
    /// What each turn has answered. A turn that was ended for a later turn is here too, and in `asked` only
    /// if a stop asked it.
    pub answers: HashMap<ProcessId, TurnStopped>,
    /// A turn that waited for its slot was taken out of the gateway's queue.
    pub unqueued: bool,
    /// One of the callers asked for force. Used if no turn has answered.
    forced: bool,
}

impl PendingStops {
    /// Adds a caller, who waits until all of `processes` have answered. A turn that has answered already is
    /// asked again, so its earlier answer does not count.
    pub fn register(&mut self, port: StopPort, force: bool, processes: &[ProcessId]) {
        self.ports.push(port);
        self.forced |= force;
        for process in processes {
            self.answers.remove(process);
            if !self.asked.contains(process) {
                self.asked.push(*process);
            }
        }
    }

    /// At least one caller waits, and all turns have answered.
    pub fn is_complete(&self) -> bool {
        let has_answered = |process| self.answers.contains_key(process);
        !self.ports.is_empty() && self.asked.iter().all(has_answered)
    }

    /// The waiting callers and their answer: the newest turn's, with the survivors of all turns.
    /// `unrecorded`: part of it is not in the store yet.
    pub fn answer(self, attempt: &Attempt, unrecorded: bool) -> (Vec<StopPort>, AttemptStopped) {
        let newest = self.asked.last().copied().filter(|_| !self.unqueued);
        let last_answer = newest.and_then(|process| self.answers.get(&process));
        let last = &attempt.process;
        let has_run = attempt.phase == Phase::Settled && last.status != ProcessStatus::Planned;
        let process = newest.or((has_run && !self.unqueued).then_some(last.process_id));
        // The next turn may have begun by now; this stop does not concern it.
        let (exit_code, exit_signal) = match last_answer.and_then(|it| it.exit.as_ref()) {
            Some(exit) => (exit.exit_code, exit.exit_signal),
            None if process == Some(last.process_id) => (last.exit_code, last.exit_signal),
            None => (None, None),
        };
        // A process that was ended for a later turn has an answer too, which no stop asked for.
        let answers = self.asked.iter().filter_map(|process| self.answers.get(process));
        let survivors = answers.map(|stopped| stopped.survivors);
        let signals = last_answer.map(|it| it.facts.signals.as_slice()).unwrap_or_default();
        let answer = AttemptStopped {
            attempt_id: attempt.attempt_id,
            execution_process_id: process,
            stopped: self.unqueued || last_answer.is_some_and(|it| it.stopped),
            state: attempt.state,
            phase: attempt.phase,
            forced: last_answer.map_or(self.forced, |it| it.facts.forced),
            signals: signals.iter().map(|&signal| signal.to_owned()).collect(),
            exit_code,
            exit_signal,
            survivors: survivors.sum(),
            unrecorded,
        };
        (self.ports, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lifecycle::StopFacts;
    use super::*;

    fn heard() -> TurnStopped {
        TurnStopped { stopped: true, facts: StopFacts::default(), exit: None, survivors: 0 }
    }

    #[test]
    fn an_answer_waits_for_every_turn_also_for_those_that_are_asked_again() {
        let [one, other] = [ProcessId::new(), ProcessId::new()];
        let port = || StopPort::from(ractor::concurrency::oneshot().0);
        let mut stops = PendingStops::default();
        assert!(!stops.is_complete(), "nobody waits");
        stops.register(port(), false, &[one, other]);
        stops.answers.insert(one, heard());
        assert!(!stops.is_complete());
        stops.register(port(), true, &[one, other]);
        stops.answers.insert(other, heard());
        assert!(!stops.is_complete(), "one was asked again");
        stops.answers.insert(one, heard());
        assert!(stops.is_complete());
        let mut nothing = PendingStops::default();
        nothing.register(port(), false, &[]);
        assert!(nothing.is_complete());
    }
}

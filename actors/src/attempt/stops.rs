//! Who is asked to stop, and what they have said: a stop goes to every turn of
//! which something may be alive, and is answered when all have been heard. Pure.

use std::collections::HashMap;

use crate::event::ProcessStatus;
use crate::ids::ProcessId;
use crate::journal::{Attempt, AttemptStopped, Phase};

use super::lifecycle::Stopped;

/// A stop that is under way. `P` is the port of a caller.
#[derive(Debug)]
pub struct Stops<P> {
    ports: Vec<P>,
    /// The processes that were asked, oldest first.
    asked: Vec<ProcessId>,
    heard: HashMap<ProcessId, Stopped>,
    /// A turn that waited for its slot was taken out of the queue.
    pub unqueued: bool,
    forced: bool,
}

impl<P> Default for Stops<P> {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            asked: Vec::new(),
            heard: HashMap::new(),
            unqueued: false,
            forced: false,
        }
    }
}

impl<P> Stops<P> {
    /// One more waits for the answer, and all of `processes` are asked, again if
    /// they were before.
    pub fn ask(&mut self, port: P, force: bool, processes: &[ProcessId]) {
        self.ports.push(port);
        self.forced |= force;
        for process in processes {
            self.heard.remove(process);
            if !self.asked.contains(process) {
                self.asked.push(*process);
            }
        }
    }

    pub fn hear(&mut self, process: ProcessId, stopped: Stopped) {
        self.heard.insert(process, stopped);
    }

    /// Somebody waits, and nobody is left to be heard.
    pub fn is_complete(&self) -> bool {
        let is_heard = |process| self.heard.contains_key(process);
        !self.ports.is_empty() && self.asked.iter().all(is_heard)
    }

    /// The answer, and who waits for it. The newest turn speaks; of what was left
    /// of earlier ones only the survivors count.
    /// `unrecorded`: the store has not taken all of it yet.
    pub fn answer(self, attempt: &Attempt, unrecorded: bool) -> (Vec<P>, AttemptStopped) {
        let newest = self.asked.last().copied().filter(|_| !self.unqueued);
        let told = newest.and_then(|process| self.heard.get(&process));
        let last = &attempt.process;
        let has_run = attempt.phase == Phase::Settled && last.status != ProcessStatus::Planned;
        let process = newest.or((has_run && !self.unqueued).then_some(last.process_id));
        // By now the next turn may have begun, which this stop is not about.
        let (exit_code, exit_signal) = match told.and_then(|told| told.exit.as_ref()) {
            Some(exit) => (exit.exit_code, exit.exit_signal),
            None if process == Some(last.process_id) => (last.exit_code, last.exit_signal),
            None => (None, None),
        };
        let signals = told.map(|told| told.facts.signals.as_slice()).unwrap_or_default();
        let answer = AttemptStopped {
            attempt_id: attempt.attempt_id,
            execution_process_id: process,
            stopped: self.unqueued || told.is_some_and(|told| told.stopped),
            state: attempt.state,
            phase: attempt.phase,
            forced: told.map_or(self.forced, |told| told.facts.forced),
            signals: signals.iter().map(|&signal| signal.to_owned()).collect(),
            exit_code,
            exit_signal,
            survivors: self.heard.values().map(|stopped| stopped.survivors).sum(),
            unrecorded,
        };
        (self.ports, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lifecycle::StopFacts;
    use super::*;

    fn heard() -> Stopped {
        Stopped { stopped: true, facts: StopFacts::default(), exit: None, survivors: 0 }
    }

    #[test]
    fn an_answer_waits_for_every_turn_also_for_those_that_are_asked_again() {
        let [one, other] = [ProcessId::new(), ProcessId::new()];
        let mut stops = Stops::default();
        assert!(!stops.is_complete(), "nobody waits");
        stops.ask("first", false, &[one, other]);
        stops.hear(one, heard());
        assert!(!stops.is_complete());
        stops.ask("second", true, &[one, other]);
        stops.hear(other, heard());
        assert!(!stops.is_complete(), "one was asked again");
        stops.hear(one, heard());
        assert!(stops.is_complete());
        let mut nothing = Stops::default();
        nothing.ask("third", false, &[]);
        assert!(nothing.is_complete());
    }
}

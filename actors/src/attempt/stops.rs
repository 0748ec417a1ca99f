//! A stop, from the call to its answer: it goes to every turn of which
//! something may be alive, and is answered when all have been heard.

use std::collections::HashMap;

use ractor::RpcReplyPort;

use crate::event::ProcessStatus;
use crate::ids::ProcessId;
use crate::journal::{AttemptStopped, Change, Phase, State as Standing};
use crate::refusal::Refusal;

use super::Notice;
use super::lifecycle::{Input, Stopped};
use super::queue;
use super::run::State;

pub type StopPort = RpcReplyPort<Result<AttemptStopped, Refusal>>;

/// The stop that is under way, if one is.
#[derive(Default)]
pub struct Stops {
    ports: Vec<StopPort>,
    /// The processes that were asked, oldest first.
    asked: Vec<ProcessId>,
    heard: HashMap<ProcessId, Stopped>,
    /// A turn that waited for its slot was taken out of the queue.
    unqueued: bool,
    forced: bool,
}

impl Stops {
    fn ask(&mut self, process: ProcessId) {
        self.heard.remove(&process);
        if !self.asked.contains(&process) {
            self.asked.push(process);
        }
    }

    fn is_complete(&self) -> bool {
        self.asked.iter().all(|process| self.heard.contains_key(process))
    }
}

impl State {
    pub async fn stop(&mut self, force: bool, port: StopPort) {
        self.stops.forced |= force;
        if let Err(refusal) = self.hold().await {
            let _ = port.send(Err(refusal));
            return;
        }
        self.stops.ports.push(port);
        let turns: Vec<ProcessId> = self.turns.iter().map(|turn| turn.handle.process).collect();
        for &process in &turns {
            self.stops.ask(process);
        }
        for process in turns {
            match self.turn(process) {
                Some(turn) if turn.finding => {
                    turn.deferred = Some(force || turn.deferred.unwrap_or(false));
                }
                _ => self.step(process, Input::Stop { force }).await,
            }
        }
        self.answer_stops();
    }

    /// Nothing more begins by itself: what waits is held, and a turn that waits
    /// for its slot waits no more.
    async fn hold(&mut self) -> Result<(), Refusal> {
        let process = self.attempt.process.process_id;
        let mut queue = self.queue.clone();
        queue.step(queue::Input::Stop)?;
        if queue != self.queue {
            self.advance(process, &Change::Held).await?;
            self.queue = queue;
        }
        if self.attempt.phase != Phase::Queued {
            return Ok(());
        }
        let (phase, state) = match self.attempt.ended_as {
            Some(state) => (Phase::Settled, state),
            None => (Phase::Idle, Standing::Idle),
        };
        self.advance(process, &Change::Unqueued { phase, state }).await?;
        (self.attempt.phase, self.attempt.state) = (phase, state);
        // Held: nothing begins by it.
        self.queue.step(queue::Input::TurnEnded)?;
        self.stops.unqueued = true;
        self.notify(Notice::SlotFreed(self.attempt.attempt_id));
        Ok(())
    }

    /// A turn has answered its stop.
    pub(super) fn stopped(&mut self, process: ProcessId, stopped: Stopped) {
        self.stops.heard.insert(process, stopped);
        self.answer_stops();
    }

    fn answer_stops(&mut self) {
        if self.stops.ports.is_empty() || !self.stops.is_complete() {
            return;
        }
        let stops = std::mem::take(&mut self.stops);
        // The newest of them speaks; the others are what was left of earlier turns.
        let newest = stops.asked.last().filter(|_| !stops.unqueued);
        let told = newest.and_then(|process| stops.heard.get(process));
        let last = &self.attempt.process;
        let has_run = self.attempt.phase == Phase::Settled && last.status != ProcessStatus::Planned;
        let process = match newest {
            Some(&process) => Some(process),
            None => (has_run && !stops.unqueued).then_some(last.process_id),
        };
        // By now the next turn may have begun, which this stop is not about.
        let (exit_code, exit_signal) = match told.and_then(|told| told.exit.as_ref()) {
            Some(exit) => (exit.exit_code, exit.exit_signal),
            None if process == Some(last.process_id) => (last.exit_code, last.exit_signal),
            None => (None, None),
        };
        let answer = AttemptStopped {
            attempt_id: self.attempt.attempt_id,
            execution_process_id: process,
            stopped: stops.unqueued || told.is_some_and(|told| told.stopped),
            state: self.attempt.state,
            phase: self.attempt.phase,
            forced: told.map_or(stops.forced, |told| told.facts.forced),
            signals: told
                .into_iter()
                .flat_map(|told| &told.facts.signals)
                .map(|&signal| signal.to_owned())
                .collect(),
            exit_code,
            exit_signal,
            survivors: stops.heard.values().map(|stopped| stopped.survivors).sum(),
        };
        for port in stops.ports {
            let _ = port.send(Ok(answer.clone()));
        }
    }
}

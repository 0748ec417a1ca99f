//! What a stop does to an attempt: what waits is held, every turn is told, then the
//! row is written, and whoever asked is answered when all have ended. A row that
//! can't be written holds nothing of this up; the answer says so.

use super::Notice;
use super::lifecycle::{Input, StopFacts, Stopped};
use super::message::StopPort;
use super::queue;
use super::run::State;
use super::turn::Turn;
use crate::event::Timestamp;
use crate::ids::{ProcessId, QueueId};
use crate::journal::{Change, FollowUp, Phase, State as Standing};

impl State {
    pub async fn stop(&mut self, force: bool, port: StopPort) {
        let turns: Vec<ProcessId> = self.turns.iter().map(|turn| turn.handle.process).collect();
        self.stops.ask(port, force, &turns);
        // Before anything ends: the end of a turn is not to begin the next one.
        self.hold();
        for process in turns {
            match self.turn(process) {
                Some(turn) if turn.finding => {
                    turn.deferred = Some(force || turn.deferred.unwrap_or(false));
                    turn.kill_unless_found(force);
                }
                _ => self.stop_turn(process, force).await,
            }
        }
        self.hold_what_resumes().await;
        self.answer_stops();
    }

    /// Stops one turn, by its protocol's own interrupt if it has one.
    pub(super) async fn stop_turn(&mut self, process: ProcessId, force: bool) {
        let by_message = self.turn(process).is_some_and(|turn| turn.has_interrupt());
        self.step(process, Input::Stop { force, by_message }).await;
    }

    /// Nothing more begins by itself: what waits is held, and a turn that waits for
    /// its slot waits no more. The row is written once the processes have been told.
    fn hold(&mut self) {
        if self.attempt.phase == Phase::Queued {
            return self.unqueue();
        }
        let was_held = self.queue.is_held();
        // A stop is never refused.
        let _ = self.queue.step(queue::Input::Stop);
        if self.queue.is_held() != was_held {
            self.note(self.attempt.process.process_id, Change::Held);
        }
    }

    /// So is what was to go on when a limit is over.
    async fn hold_what_resumes(&mut self) {
        let process = self.attempt.process.process_id;
        if self.attempt.phase == Phase::Settled && self.resumes().await {
            self.note(process, Change::Held);
        }
        self.write_noted().await;
    }

    /// It is to go on when a limit is over; one that can't be read may be.
    async fn resumes(&self) -> bool {
        let resumable = self.world.journal.resumable().await;
        resumable
            .map_or(true, |all| all.iter().any(|(attempt, ..)| *attempt == self.attempt.attempt_id))
    }

    /// Takes the turn out of the queue for a slot. A follow-up was taken in to be
    /// run, so it waits again; the prompt of a start goes with the start.
    fn unqueue(&mut self) {
        let process = &self.attempt.process;
        let returned = (self.attempt.epoch > 1).then(|| FollowUp {
            queue_id: QueueId::new(),
            prompt: process.prompt.clone(),
            variant: process.variant.clone(),
            queued_at: Timestamp::now(),
        });
        // The same.
        let _ = self.queue.step(queue::Input::Unqueued(returned.clone()));
        let (phase, state) = match self.attempt.ended_as {
            Some(state) => (Phase::Settled, state),
            None => (Phase::Idle, Standing::Idle),
        };
        self.note(process.process_id, Change::Unqueued { phase, state, returned });
        (self.attempt.phase, self.attempt.state) = (phase, state);
        self.stops.unqueued = true;
        self.notify(Notice::SlotFreed(self.attempt.attempt_id));
    }

    /// A turn has answered its stop.
    pub(super) fn stopped(&mut self, process: ProcessId, stopped: Stopped) {
        self.stops.hear(process, stopped);
        self.answer_stops();
    }

    /// What became of a turn's process can't be found out, for want of room say; but
    /// nothing of it is alive any more, except for so many.
    pub(super) fn killed_unfound(&mut self, process: ProcessId, survivors: u32) {
        let turn = self.turn(process).filter(|turn| turn.finding);
        let Some(forced) = turn.and_then(|turn| turn.deferred) else { return };
        let facts = StopFacts { forced, signals: vec!["SIGKILL"] };
        self.stopped(process, Stopped { stopped: survivors == 0, facts, exit: None, survivors });
    }

    fn answer_stops(&mut self) {
        if !self.stops.is_complete() {
            return;
        }
        let waits = |turn: &Turn| turn.finding || turn.life.is_dead();
        let unrecorded = !self.is_on_file() || self.turns.iter().any(waits);
        let stops = std::mem::take(&mut self.stops);
        let (ports, answer) = stops.answer(&self.attempt, unrecorded);
        for port in ports {
            let _ = port.send(Ok(answer.clone()));
        }
    }
}

//! What a stop does to an attempt: it holds the waiting follow-ups, stops every turn,
//! then writes the row, and answers its callers when all turns have ended. A failing
//! write delays none of this; the answer reports it.

use std::time::Duration;

use super::AttemptEvent;
use super::end_less_confined::Earlier;
use super::lifecycle::{LifeEvent, StopFacts, TurnStopped};
use super::message::{StopPort, TurnEvent};
use super::queue;
use super::start;
use super::state::AttemptActorState;
use super::turn::Turn;
use crate::blocking::lock;
use crate::ids::ProcessId;
use crate::journal::{Change, Phase, State};
use crate::process::records::StopKind;
use crate::task::spawn;

/// How long a stop waits at least for a process to be found again.
const FINDS: Duration = Duration::from_secs(1);

impl AttemptActorState {
    pub async fn stop(&mut self, force: bool, port: StopPort) {
        let turns: Vec<ProcessId> = self.turns.iter().map(|turn| turn.handle.process).collect();
        self.stops.register(port, force, &turns);
        // Before anything ends: the end of a turn is not to begin the next one.
        self.hold();
        for process in turns {
            self.stop_or_defer(process, force).await;
        }
        if self.attempt.phase == Phase::Settled && self.resumes().await {
            self.note(self.attempt.process.process_id, Change::Held);
        }
        self.write_noted().await;
        self.answer_stops();
    }

    /// What runs now, for a turn that is about to be prepared.
    pub(super) fn earlier(&self) -> Earlier {
        let turns = self.turns.iter().map(|turn| (turn.handle.process, turn.alive.subscribe()));
        Earlier { turns: turns.collect(), preview: self.previewing.clone() }
    }

    /// Ends what earlier turns have left running, to make way for the newest one.
    pub(super) async fn end_earlier(&mut self, processes: Vec<ProcessId>) {
        for process in processes {
            self.stop_or_defer(process, true).await;
        }
    }

    /// Stops one turn. One that is still being found is stopped then.
    pub(super) async fn stop_or_defer(&mut self, process: ProcessId, force: bool) {
        match self.turn(process) {
            Some(turn) if turn.finding => {
                turn.deferred = Some(force || turn.deferred.unwrap_or(false));
                turn.kill_unless_found(force);
            }
            _ => self.stop_turn(process, force).await,
        }
    }

    /// Stops one turn, by its protocol's own interrupt if it has one, and its setup.
    pub(super) async fn stop_turn(&mut self, process: ProcessId, force: bool) {
        let by_message = self.turn(process).is_some_and(|turn| {
            let kind = if force { StopKind::Forced } else { StopKind::Soft };
            turn.setup.send_modify(|word| word.stop = word.stop.max(Some(kind)));
            lock(&turn.summary).interrupt.is_some()
        });
        self.step(process, LifeEvent::Stop { force, by_message }).await;
    }

    /// Nothing more begins by itself: holds the waiting follow-ups and unqueues a turn
    /// that waits for its slot. The row is written once the signals are sent.
    fn hold(&mut self) {
        if self.attempt.phase == Phase::Queued {
            return self.unqueue();
        }
        let was_held = self.queue.held;
        // A stop is never refused.
        let _ = self.queue.step(queue::QueueEvent::Stop);
        if self.queue.held != was_held {
            self.note(self.attempt.process.process_id, Change::Held);
        }
    }

    /// Whether it would resume when a limit ends; `true` if that can't be read.
    async fn resumes(&self) -> bool {
        let id = self.attempt.attempt_id;
        let resumable = self.world.journal.resumable().await;
        resumable.map_or(true, |all| all.iter().any(|(attempt, ..)| *attempt == id))
    }

    /// Takes the turn out of the queue for a slot. A follow-up waits again, for it was
    /// accepted; the prompt of a start is dropped with the start.
    fn unqueue(&mut self) {
        let process = self.attempt.process.process_id;
        let newest = &self.attempt.process;
        let is_of_start = newest.queue_id.is_none() && newest.turn == 1;
        let returned = (!is_of_start).then(|| self.prompt_again());
        let _ = self.queue.step(queue::QueueEvent::Unqueued(returned.clone()));
        let (phase, state) = match self.attempt.ended_as {
            Some(state) => (Phase::Settled, state),
            None => (Phase::Idle, State::Idle),
        };
        self.note(process, Change::Unqueued { phase, state, returned });
        (self.attempt.phase, self.attempt.state) = (phase, state);
        self.stops.unqueued = true;
        self.notify(AttemptEvent::SlotFreed(self.attempt.attempt_id));
    }

    pub(super) fn stopped(&mut self, process: ProcessId, stopped: TurnStopped) {
        self.stops.answers.insert(process, stopped);
        self.answer_stops();
    }

    /// What became of a turn's process can't be found out, for lack of disk space say, but
    /// all of it is dead except for the survivors.
    pub(super) fn killed_unfound(&mut self, process: ProcessId, survivors: u32) {
        let turn = self.turn(process).filter(|turn| turn.finding);
        let Some(forced) = turn.and_then(|turn| turn.deferred) else { return };
        let facts = StopFacts { forced, signals: vec!["SIGKILL"] };
        self.stopped(
            process,
            TurnStopped { stopped: survivors == 0, facts, exit: None, survivors },
        );
    }

    fn answer_stops(&mut self) {
        if !self.stops.is_complete() {
            return;
        }
        let waits = |it: &Turn| it.finding || it.life.is_dead() || it.unrecorded.is_some();
        let unrecorded = !self.unwritten.is_empty() || self.turns.iter().any(waits);
        let stops = std::mem::take(&mut self.stops);
        let (ports, answer) = stops.answer(&self.attempt, unrecorded);
        for port in ports {
            let _ = port.send(Ok(answer.clone()));
        }
    }
}

impl Turn {
    /// Kills the process after a pause if it has not been found by then: on a full disk, its log
    /// may never be opened again.
    pub fn kill_unless_found(&self, force: bool) {
        let grace = if force { Duration::ZERO } else { self.world.settings.stop_grace };
        self.handle.send_after(grace.max(FINDS), || TurnEvent::KillUnfound);
    }

    /// Kills what is alive of a process that has not been found yet.
    pub fn kill_unfound(&mut self) {
        let Some(forced) = self.deferred.filter(|_| self.finding) else { return };
        let kind = if forced { StopKind::Forced } else { StopKind::Soft };
        let (handle, world, attempt) =
            (self.handle.clone(), self.world.clone(), self.attempt.clone());
        spawn(async move {
            match start::kill(&world, &attempt, kind).await {
                Ok(survivors) => handle.send(TurnEvent::KilledUnfound(survivors)),
                Err(error) => {
                    tracing::error!(attempt = %attempt.attempt_id, %error, "a process is not killed yet; it is tried again");
                    handle.send_after(FINDS, || TurnEvent::KillUnfound);
                }
            }
        });
    }
}

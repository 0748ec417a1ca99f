//! What a stop does to an attempt. A failing write delays none of this; the answer reports it.
//!
//! ```text
//!  register the caller ─▶ hold the queue ─▶ stop every turn ─▶ write the row ─▶ answer
//!  (pending_stops.rs)     nothing begins    at once; a turn    as far as the     when every turn
//!                         by itself         that is still      store takes it    has answered
//!                                           being found: then,
//!                                           or by KillUnfound
//! ```

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

/// How long a stop waits at least until a process is found after a restart, and between tries to kill one
/// that is not found.
const FINDS: Duration = Duration::from_secs(1);

impl AttemptActorState {
    /// Stops everything of the attempt. The port is answered when nothing of it is alive, or when what
    /// survives is known.
    pub async fn stop(&mut self, force: bool, port: StopPort) {
        let turns: Vec<ProcessId> = self.turns.iter().map(|turn| turn.handle.process).collect();
        self.stops.register(port, force, &turns);
        // First of all, so that the end of a turn does not begin the next one.
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

    /// What runs now, for a turn that is about to be prepared: see `end_less_confined.rs`.
    pub(super) fn earlier(&self) -> Earlier {
        let turns = self.turns.iter().map(|turn| (turn.handle.process, turn.alive.subscribe()));
        Earlier { turns: turns.collect(), preview: self.previewing.clone() }
    }

    /// Kills what these earlier turns have left running, because the newest turn will have a stricter
    /// sandbox.
    pub(super) async fn end_earlier(&mut self, processes: Vec<ProcessId>) {
        for process in processes {
            self.stop_or_defer(process, true).await;
        }
    }

    /// Stops one turn. If its process is still being found, the stop follows once it is found, or kills the
    /// process after a pause.
    pub(super) async fn stop_or_defer(&mut self, process: ProcessId, force: bool) {
        match self.turn(process) {
            Some(turn) if turn.finding => {
                turn.deferred = Some(force || turn.deferred.unwrap_or(false));
                turn.kill_unless_found(force);
            }
            _ => self.stop_turn(process, force).await,
        }
    }

    /// Stops one turn and its setup. The turn's protocol may have an interrupt of its own.
    pub(super) async fn stop_turn(&mut self, process: ProcessId, force: bool) {
        let by_message = self.turn(process).is_some_and(|turn| {
            let kind = if force { StopKind::Forced } else { StopKind::Soft };
            turn.setup.send_modify(|word| word.stop = word.stop.max(Some(kind)));
            lock(&turn.summary).interrupt.is_some()
        });
        self.step(process, LifeEvent::Stop { force, by_message }).await;
    }

    /// Lets nothing more begin by itself: holds the follow-ups that wait, and unqueues a turn that waits for
    /// its slot. The row is written later, once the signals are sent.
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

    /// Whether the attempt would resume by itself when a limit ends. `true` also if that can't be read: the
    /// row then holds the attempt in any case.
    async fn resumes(&self) -> bool {
        let id = self.attempt.attempt_id;
        let resumable = self.world.journal.resumable().await;
        resumable.map_or(true, |all| all.iter().any(|(attempt, ..)| *attempt == id))
    }

    /// Takes the turn out of the gateway's queue for a slot. The prompt of a follow-up waits again, because
    /// the follow-up was accepted; the prompt of the attempt's start is dropped with the start.
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

    /// Notes one turn's answer, and answers the callers if it was the last one. Without callers, the turn was
    /// ended for a later turn.
    pub(super) fn stopped(&mut self, process: ProcessId, stopped: TurnStopped) {
        self.stops.answers.insert(process, stopped);
        self.answer_stops();
    }

    /// Answers for a turn whose process could not be found, for example because the disk is full, and was
    /// killed without that. All of it is dead except for the survivors.
    pub(super) fn killed_unfound(&mut self, process: ProcessId, survivors: u32) {
        let turn = self.turn(process).filter(|turn| turn.finding);
        let Some(forced) = turn.and_then(|turn| turn.deferred) else { return };
        let facts = StopFacts { forced, signals: vec!["SIGKILL"] };
        self.stopped(
            process,
            TurnStopped { stopped: survivors == 0, facts, exit: None, survivors },
        );
    }

    /// Answers the callers once every turn has answered. The answer also says whether something is not
    /// written down yet.
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
    /// Has the process killed after a pause if it has not been found by then: on a full disk its log may
    /// never be opened again, and without its log it is not found.
    pub fn kill_unless_found(&self, force: bool) {
        let grace = if force { Duration::ZERO } else { self.world.settings.launch.stop_grace };
        self.handle.send_after(grace.max(FINDS), || TurnEvent::KillUnfound);
    }

    /// Kills what is alive of a process that has not been found yet: `KilledUnfound` follows.
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

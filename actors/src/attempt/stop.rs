//! What a stop does to an attempt: what waits is held, every turn is told, and
//! whoever asked is answered when all have ended.

use crate::event::Timestamp;
use crate::ids::{ProcessId, QueueId};
use crate::journal::{Change, FollowUp, Phase, State as Standing};
use crate::refusal::Refusal;

use super::Notice;
use super::lifecycle::{Input, Stopped};
use super::message::StopPort;
use super::queue;
use super::run::State;

impl State {
    pub async fn stop(&mut self, force: bool, port: StopPort) {
        if let Err(refusal) = self.hold().await {
            let _ = port.send(Err(refusal));
            return;
        }
        let turns: Vec<ProcessId> = self.turns.iter().map(|turn| turn.handle.process).collect();
        self.stops.ask(port, force, &turns);
        for process in turns {
            match self.turn(process) {
                Some(turn) if turn.finding => {
                    turn.deferred = Some(force || turn.deferred.unwrap_or(false));
                }
                _ => self.stop_turn(process, force).await,
            }
        }
        self.answer_stops();
    }

    /// Stops one turn, by its protocol's own interrupt if it has one.
    pub(super) async fn stop_turn(&mut self, process: ProcessId, force: bool) {
        let by_message = self.turn(process).is_some_and(|turn| turn.has_interrupt());
        self.step(process, Input::Stop { force, by_message }).await;
    }

    /// Nothing more begins by itself: what waits is held, be it for the end of a
    /// limit, and a turn that waits for its slot waits no more.
    async fn hold(&mut self) -> Result<(), Refusal> {
        if self.attempt.phase == Phase::Queued {
            return self.unqueue().await;
        }
        let mut queue = self.queue.clone();
        queue.step(queue::Input::Stop)?;
        if queue != self.queue || self.resumes().await? {
            self.advance(self.attempt.process.process_id, &Change::Held).await?;
            self.queue = queue;
        }
        Ok(())
    }

    /// It is to go on when a limit is over.
    async fn resumes(&self) -> Result<bool, Refusal> {
        if self.attempt.phase != Phase::Settled {
            return Ok(false);
        }
        let resumable = self.world.journal.resumable().await?;
        Ok(resumable.iter().any(|(attempt, ..)| *attempt == self.attempt.attempt_id))
    }

    /// Takes the turn out of the queue for a slot. A follow-up was taken in to be
    /// run, so it waits again; the prompt of a start goes with the start.
    async fn unqueue(&mut self) -> Result<(), Refusal> {
        let process = &self.attempt.process;
        let returned = (self.attempt.epoch > 1).then(|| FollowUp {
            queue_id: QueueId::new(),
            prompt: process.prompt.clone(),
            variant: process.variant.clone(),
            queued_at: Timestamp::now(),
        });
        let mut queue = self.queue.clone();
        queue.step(queue::Input::Unqueued(returned.clone()))?;
        let (phase, state) = match self.attempt.ended_as {
            Some(state) => (Phase::Settled, state),
            None => (Phase::Idle, Standing::Idle),
        };
        self.advance(process.process_id, &Change::Unqueued { phase, state, returned }).await?;
        (self.attempt.phase, self.attempt.state) = (phase, state);
        self.queue = queue;
        self.stops.unqueued = true;
        self.notify(Notice::SlotFreed(self.attempt.attempt_id));
        Ok(())
    }

    /// A turn has answered its stop.
    pub(super) fn stopped(&mut self, process: ProcessId, stopped: Stopped) {
        self.stops.hear(process, stopped);
        self.answer_stops();
    }

    fn answer_stops(&mut self) {
        if !self.stops.is_complete() {
            return;
        }
        let (ports, answer) = std::mem::take(&mut self.stops).answer(&self.attempt);
        for port in ports {
            let _ = port.send(Ok(answer.clone()));
        }
    }
}

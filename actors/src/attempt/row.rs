//! The attempt's row, as its actor writes it: each change in its order. What the
//! store can't take now, because the disk is full, or the database is locked or
//! gone, waits here and is written once that has passed. The actor does not wait for
//! that, so a stop is not behind it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ids::ProcessId;
use crate::journal::{Change, Turnover};
use crate::refusal::{Code, Refusal};

use super::message::{Message, Notice, Writer};
use super::queue;
use super::run::State;

/// Between tries to write what the store did not take.
const RETRY: Duration = Duration::from_secs(1);

/// What is not in the row yet.
#[derive(Debug, Default)]
pub struct Row {
    /// In the order in which it happened. The outcomes of turns are not among it:
    /// what follows a turn is decided when its outcome is written.
    unwritten: VecDeque<(ProcessId, Change)>,
    /// Why the store took nothing last; it is to be tried again soon.
    refused: Option<Refusal>,
}

impl Row {
    /// All of it is in the store, the outcomes of turns apart.
    pub fn is_written(&self) -> bool {
        self.unwritten.is_empty()
    }

    /// Why nothing can be written now.
    pub fn refused(&self) -> Option<&Refusal> {
        self.refused.as_ref()
    }
}

impl State {
    /// Everything that happened to the attempt is in its row.
    pub(super) fn is_on_file(&self) -> bool {
        self.row.is_written() && self.turns.iter().all(|turn| turn.unrecorded.is_none())
    }

    /// Writes a change after all earlier ones, now or as soon as the store takes it.
    pub(super) async fn advance(&mut self, process: ProcessId, change: Change) {
        self.note(process, change);
        self.write_noted().await;
    }

    /// Takes a change down, to be written with the next one.
    pub(super) fn note(&mut self, process: ProcessId, change: Change) {
        self.row.unwritten.push_back((process, change));
    }

    /// Writes what was taken down, now or as soon as the store takes it.
    pub(super) async fn write_noted(&mut self) {
        if self.row.refused.is_none() {
            self.write_changes().await;
        }
    }

    /// The time for another try has come.
    pub async fn write_again(&mut self) {
        self.row.refused = None;
        let ended: Vec<ProcessId> = self.unrecorded().collect();
        if self.write_changes().await && ended.is_empty() {
            self.disk(self.attempt.process.process_id, Writer::Row, None);
        }
        for process in ended {
            self.record(process).await;
        }
    }

    fn unrecorded(&self) -> impl Iterator<Item = ProcessId> {
        let unrecorded = self.turns.iter().filter(|turn| turn.unrecorded.is_some());
        unrecorded.map(|turn| turn.handle.process)
    }

    /// Writes the changes that wait. `false`: the store does not take them now.
    async fn write_changes(&mut self) -> bool {
        let (id, epoch) = (self.attempt.attempt_id, self.attempt.epoch);
        while let Some((process, change)) = self.row.unwritten.front() {
            let written = self.world.journal.advance(id, epoch, *process, change).await;
            match written {
                Err(refusal) if may_pass(&refusal) => {
                    self.refused(refusal);
                    return false;
                }
                Err(refusal) => {
                    tracing::error!(attempt = %id, %refusal, ?change, "a change was not written");
                }
                Ok(()) => {}
            }
            self.row.unwritten.pop_front();
        }
        true
    }

    /// Has it tried again, and tells who looks what it waits for.
    fn refused(&mut self, refusal: Refusal) {
        tracing::warn!(attempt = %self.attempt.attempt_id, %refusal, "its row waits");
        self.disk(self.attempt.process.process_id, Writer::Row, Some(refusal.message.clone()));
        self.row.refused = Some(refusal);
        drop(self.myself.send_after(RETRY, || Message::WriteAgain));
    }

    /// Writes a turn's outcome down, and in the same stroke the beginning of the
    /// next one, which keeps the slot.
    pub(super) async fn record(&mut self, process: ProcessId) {
        let outcome = self.turn(process).and_then(|turn| turn.unrecorded.clone());
        let Some(outcome) = outcome else { return };
        if self.row.refused.is_some() || !self.write_changes().await {
            return;
        }
        let again = self.again(process, &outcome);
        let mut queue = self.queue.clone();
        let step = match again {
            Some(_) => queue::Step::default(),
            // The end of a turn is never refused.
            None => queue.step(queue::Input::TurnEnded).unwrap_or_default(),
        };
        let next = again.or_else(|| step.begin.map(|follow_up| self.next(follow_up, true)));
        let turnover =
            Turnover { added: None, taken: step.taken, held: queue.is_held(), begun: next.clone() };
        let quota = outcome.quota.filter(|quota| quota.resumes);
        let settled = Change::Settled(outcome, Box::new(turnover));
        let (id, epoch) = (self.attempt.attempt_id, self.attempt.epoch);
        if let Err(refusal) = self.world.journal.advance(id, epoch, process, &settled).await {
            return self.refused(refusal);
        }
        self.disk(process, Writer::Row, None);
        self.with(process, |turn| turn.unrecorded = None);
        self.queue = queue;
        if let Some(next) = next {
            return self.go_on(next);
        }
        self.notify(Notice::SlotFreed(id));
        if let Some(at) = quota.and_then(|quota| quota.resume_at) {
            self.notify(Notice::Resumes(id, process, at));
        }
    }
}

/// Whether the same write may be taken later.
pub(super) fn may_pass(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::StorageFull | Code::DbLocked | Code::DbUnavailable)
}

//! The attempt's row, as its actor writes it: change after change, in order. While the
//! disk is full, or the database is locked or gone, changes wait here and are retried.
//! The actor does not wait for the store, so a stop never does. Which writers wait for
//! the disk is kept in memory only, because there may be no room for a row.
//!
//! ```text
//!  note ─▶ unwritten ─write_changes─▶ the row
//!             ▲             │ refused by the store (`refused` is set)
//!             │             ▼
//!             └── WriteAgain, after 250 ms to 4 s: first `unwritten`, then the outcomes of turns
//! ```
//!
//! What is refused for another reason, such as another epoch, is logged and dropped.

use crate::ids::ProcessId;
use crate::journal::{Attempt, Change, Turnover};
use crate::process::records::Started;
use crate::refusal::Refusal;
use crate::retry::Backoff;
use crate::sandbox::Held;

use super::message::{AttemptEvent, AttemptMessage, DiskWriter};
use super::queue;
use super::state::AttemptActorState;

impl AttemptActorState {
    /// Notes a change, and writes all that is noted: now, or as soon as the store takes it.
    pub(super) async fn advance(&mut self, process: ProcessId, change: Change) {
        self.note(process, change);
        self.write_noted().await;
    }

    /// Writes that a process runs, or has run, and the sandbox that holds it. `most_held` becomes the
    /// strictest level that a turn of the attempt has had.
    pub(super) async fn note_started(&mut self, process: ProcessId, started: &Started) {
        let Attempt { most_held, process: newest, .. } = &mut self.attempt;
        let now = started.sandbox.as_ref();
        *most_held = Held::most(most_held.take(), now, newest.variant.as_ref());
        let running = Change::Running {
            pid: started.pid,
            start_time: started.start_time,
            boot_id: started.boot_id.clone(),
            limits: started.limits.clone(),
            sandbox: started.sandbox.clone(),
        };
        self.advance(process, running).await;
    }

    /// Notes a change without writing it. A stop notes its changes and writes them once the signals are
    /// sent.
    pub(super) fn note(&mut self, process: ProcessId, change: Change) {
        self.unwritten.push_back((process, change));
    }

    /// Writes what was noted, unless a retry is due already, which will write it.
    pub(super) async fn write_noted(&mut self) {
        if self.refused.is_none() {
            self.write_changes().await;
        }
    }

    /// The retry: writes the noted changes, then the outcomes that no row has.
    pub async fn write_again(&mut self) {
        self.refused = None;
        let ended: Vec<ProcessId> = self.unrecorded().collect();
        if self.write_changes().await && ended.is_empty() {
            self.disk(self.attempt.process.process_id, DiskWriter::Row, None);
        }
        for process in ended {
            self.record(process).await;
        }
    }

    /// The turns whose outcome the store has not taken.
    fn unrecorded(&self) -> impl Iterator<Item = ProcessId> {
        let unrecorded = self.turns.iter().filter(|turn| turn.unrecorded.is_some());
        unrecorded.map(|turn| turn.handle.process)
    }

    /// Writes the noted changes. `false`: the store takes none now, and a retry is armed. A change that is
    /// refused for another reason, such as another epoch, is logged and dropped: it can't succeed later.
    async fn write_changes(&mut self) -> bool {
        let (id, epoch) = (self.attempt.attempt_id, self.attempt.epoch);
        while let Some((process, change)) = self.unwritten.front() {
            let written = self.world.journal.advance(id, epoch, *process, change).await;
            match written {
                Err(refusal) if refusal.code.is_of_store() => {
                    self.retry_later(refusal);
                    return false;
                }
                Err(refusal) => {
                    tracing::error!(attempt = %id, %refusal, ?change, "a change was not written");
                }
                Ok(()) => self.backoff = Backoff::default(),
            }
            self.unwritten.pop_front();
        }
        true
    }

    /// Arms the retry, and shows clients in the attempt's status why it waits.
    fn retry_later(&mut self, refusal: Refusal) {
        let what = format!("attempt {}: writing its row", self.attempt.attempt_id);
        let pause = self.backoff.failed(what, &refusal);
        self.disk(self.attempt.process.process_id, DiskWriter::Row, Some(refusal.message.clone()));
        self.refused = Some(refusal);
        drop(self.myself.send_after(pause, || AttemptMessage::WriteAgain));
    }

    /// Writes a turn's outcome and, in the same transaction, the turn that follows. That one keeps the
    /// slot, unless this host drains: nothing new begins there. All earlier changes are written first.
    pub(super) async fn record(&mut self, process: ProcessId) {
        let outcome = self.turn(process).and_then(|turn| turn.unrecorded.clone());
        let Some(outcome) = outcome else { return };
        if self.refused.is_some() || !self.write_changes().await {
            return;
        }
        let replaced = self.replace_lost(process, &outcome);
        let mut queue = self.queue.clone();
        let step = match replaced {
            Some(_) => queue::Step::default(),
            // The end of a turn is never refused.
            None => queue.step(queue::QueueEvent::TurnEnded).unwrap_or_default(),
        };
        let has_slot = !self.world.host.drains();
        let next = replaced.or_else(|| step.begin.map(|it| self.next(it, has_slot)));
        let (taken, held, begun) = (step.taken, queue.held, next.clone());
        let turnover = Turnover { taken, held, begun, ..Turnover::default() };
        let quota = outcome.quota.filter(|quota| quota.resumes);
        let settled = Change::Settled(outcome, Box::new(turnover));
        let (id, epoch) = (self.attempt.attempt_id, self.attempt.epoch);
        match self.world.journal.advance(id, epoch, process, &settled).await {
            Err(refusal) if refusal.code.is_of_store() => return self.retry_later(refusal),
            Err(refusal) => return self.drop_outcome(process, &refusal),
            Ok(()) => {}
        }
        self.disk(process, DiskWriter::Row, None);
        self.with(process, |turn| turn.unrecorded = None);
        self.queue = queue;
        if next.as_ref().is_none_or(|next| !next.has_slot) {
            self.notify(AttemptEvent::SlotFreed(id));
            self.take_snapshot();
        }
        if let Some(next) = next {
            return self.go_on(next);
        }
        if let Some(at) = quota.and_then(|quota| quota.resume_at) {
            self.notify(AttemptEvent::Resumes(id, process, at));
        }
    }

    /// The row will never take a turn's outcome, because the row is of another epoch or gone: nothing more
    /// begins here, so that this owner ends. The next one finds the outcome again in the process's folder.
    fn drop_outcome(&mut self, process: ProcessId, refusal: &Refusal) {
        let id = self.attempt.attempt_id;
        tracing::error!(attempt = %id, %refusal, "the outcome of a turn was not written");
        self.disk(process, DiskWriter::Row, None);
        self.with(process, |turn| turn.unrecorded = None);
        self.queue = queue::Queue::default();
        self.notify(AttemptEvent::SlotFreed(id));
    }

    /// Notes why a writer waits for the disk, or that it waits no longer (`None`), and shows it.
    pub(super) fn disk(&mut self, process: ProcessId, writer: DiskWriter, reason: Option<String>) {
        match reason {
            // A closed turn has nothing left to write.
            Some(reason) if self.turns.iter().any(|turn| turn.handle.process == process) => {
                self.disk_waits.insert((process, writer), reason);
            }
            _ => drop(self.disk_waits.remove(&(process, writer))),
        }
        self.notify_disk();
    }

    /// Shows clients the first reason for which a writer waits, or that none does.
    pub(super) fn notify_disk(&self) {
        let reason = self.disk_waits.values().next().map(String::as_str);
        self.world.journal.waits_for_disk(self.attempt.attempt_id, reason);
    }
}

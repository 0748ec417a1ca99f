//! What readers see of an attempt's log without touching a file: the newest normalized entries,
//! the tips, the message in progress. The writer updates it once the entries are on file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;

use super::ring::{Entry, Ring};
use super::shipped::Growth;
use super::{LogLimits, Tip};
use crate::blocking::lock;
use crate::event::Timestamp;
use crate::executor::InProgress;
use crate::ids::ProcessId;

const IN_PROGRESS_BYTES: usize = 4096;

#[derive(Default)]
pub enum Streamed {
    #[default]
    Unchanged,
    Begun(InProgress),
    /// It has become an entry, or never will.
    Ended,
}

pub struct Live {
    state: Mutex<LiveState>,
    changed: watch::Sender<u64>,
    /// Where it is noted that the log has grown, if that is to be copied.
    grown: Option<Growth>,
}

struct LiveState {
    /// Number of the next raw entry. Their text is cut from the spool, whose newest part the
    /// kernel holds in memory anyway.
    raw_next: u64,
    ring: Ring,
    /// Retention has removed no normalized entry.
    is_whole: bool,
    in_progress: BTreeMap<ProcessId, InProgress>,
    processes: BTreeSet<ProcessId>,
    last_activity_at: Option<Timestamp>,
    /// Entries are shown, and readers were not woken since.
    is_due: bool,
}

impl Live {
    pub fn new(limits: LogLimits, grown: Option<Growth>) -> Self {
        let state = LiveState {
            raw_next: 0,
            ring: Ring::new(0, limits.ring_entries, limits.ring_bytes),
            is_whole: false,
            in_progress: BTreeMap::new(),
            processes: BTreeSet::new(),
            last_activity_at: None,
            is_due: false,
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(0), grown }
    }

    pub fn reset(
        &self,
        raw_next: u64,
        normalized_next: u64,
        processes: BTreeSet<ProcessId>,
        last_activity_at: Option<Timestamp>,
    ) {
        let mut state = self.state();
        state.is_due |= std::mem::replace(&mut state.raw_next, raw_next) != raw_next;
        state.ring.reset(normalized_next);
        state.processes = processes;
        state.last_activity_at = last_activity_at;
    }

    /// Shows whether all normalized entries are held.
    pub fn show_whole(&self, is_whole: bool) {
        self.state().is_whole = is_whole;
    }

    pub fn is_whole(&self) -> bool {
        self.state().is_whole
    }

    pub fn add_process(&self, process: ProcessId) {
        self.state().processes.insert(process);
    }

    /// The executor wrote something at this time; the clock may have been set back.
    pub fn active(&self, at: Option<Timestamp>) {
        let mut state = self.state();
        state.last_activity_at = at.or(state.last_activity_at);
    }

    /// Shows the raw entries below this number. Readers are woken when the normalized entries of these
    /// lines are shown: once for both.
    pub fn show_raw(&self, next: u64) {
        let mut state = self.state();
        state.is_due |= std::mem::replace(&mut state.raw_next, next) != next;
    }

    /// Shows new normalized entries, and the message in progress at the same moment. Wakes the readers
    /// if there is anything new in either channel.
    pub fn show_normalized(&self, process: ProcessId, entries: Vec<Entry>, streamed: Streamed) {
        let mut state = self.state();
        state.is_due |= !entries.is_empty();
        for entry in entries {
            state.ring.push(entry);
        }
        match streamed {
            Streamed::Unchanged => {}
            Streamed::Begun(message) => drop(state.in_progress.insert(process, tail(message))),
            Streamed::Ended => drop(state.in_progress.remove(&process)),
        }
        self.wake(&mut state);
    }

    /// Wakes the readers if raw entries are shown whose normalized ones could not be filed: a disk may be
    /// full for long.
    pub fn wake_for_raw(&self) {
        self.wake(&mut self.state());
    }

    fn wake(&self, state: &mut LiveState) {
        if std::mem::take(&mut state.is_due) {
            self.changed.send_modify(|count| *count += 1);
            self.note_growth();
        }
    }

    /// A process has ended: what the log has of it is complete.
    pub fn ended(&self) {
        if let Some(grown) = &self.grown {
            grown.ship_now();
        }
    }

    fn note_growth(&self) {
        if let Some(grown) = &self.grown {
            grown.note();
        }
    }

    pub fn tip(&self) -> Tip {
        let state = self.state();
        Tip {
            raw: state.raw_next.checked_sub(1),
            normalized: state.ring.next.checked_sub(1),
            last_activity_at: state.last_activity_at,
        }
    }

    pub fn in_progress(&self) -> Option<InProgress> {
        self.state().in_progress.values().next_back().cloned()
    }

    pub fn newest_process(&self) -> Option<ProcessId> {
        self.state().processes.last().copied()
    }

    pub fn processes(&self) -> BTreeSet<ProcessId> {
        self.state().processes.clone()
    }

    /// The normalized entries with these numbers; `None` if they are not all in memory.
    pub fn newest(&self, range: &Range<u64>) -> Option<Vec<Entry>> {
        self.state().ring.get(range)
    }

    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        lock(&self.state)
    }
}

/// The end of a long message, from a character's start on.
fn tail(mut message: InProgress) -> InProgress {
    if message.text.len() > IN_PROGRESS_BYTES {
        let start = message.text.ceil_char_boundary(message.text.len() - IN_PROGRESS_BYTES);
        message.text.drain(..start);
    }
    message
}

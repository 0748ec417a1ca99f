//! What readers see of an attempt's log without touching a file: the newest normalized entries, how far both
//! channels are, and the message in progress. The writer updates it once the entries are on file.
//!
//! One mutex, held for a moment and never while a file is read or written.

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

/// Most bytes that are kept of a message in progress.
const IN_PROGRESS_BYTES: usize = 4096;

/// What a batch of raw lines did to the message in progress of their process.
#[derive(Default)]
pub enum Streamed {
    #[default]
    Unchanged,
    /// A message is being streamed: its end so far.
    Begun(InProgress),
    /// The message has become an entry, or never will.
    Ended,
}

/// The state of one log that its writer and its readers share.
pub struct Live {
    state: Mutex<LiveState>,
    changed: watch::Sender<u64>,
    /// Where growth is noted, if the log is shipped.
    grown: Option<Growth>,
}

struct LiveState {
    /// Number of the next raw entry. The text of raw entries is not kept here: it is cut from the spool,
    /// whose newest part the kernel holds in memory anyway.
    raw_next: u64,
    ring: Ring,
    /// Retention has removed no normalized entry.
    is_whole: bool,
    in_progress: BTreeMap<ProcessId, InProgress>,
    processes: BTreeSet<ProcessId>,
    last_activity_at: Option<Timestamp>,
    /// Entries have been shown since readers were last woken.
    is_due: bool,
}

impl Live {
    /// Empty, until the writer that opens the log calls [`reset`](Self::reset).
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

    /// Shows what a writer has found in the files. Entries in memory stay if they end where the file does.
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

    /// Shows whether the files hold all normalized entries; if so, a page may be answered from memory.
    pub fn show_whole(&self, is_whole: bool) {
        self.state().is_whole = is_whole;
    }

    /// Whether retention has removed no normalized entry.
    pub fn is_whole(&self) -> bool {
        self.state().is_whole
    }

    /// A process has begun.
    pub fn add_process(&self, process: ProcessId) {
        self.state().processes.insert(process);
    }

    /// The executor wrote something at this time. `None` changes nothing. A time before the last one is
    /// taken, too: the clock may have been set back.
    pub fn active(&self, at: Option<Timestamp>) {
        let mut state = self.state();
        state.last_activity_at = at.or(state.last_activity_at);
    }

    /// Shows the raw entries below this number. Readers are not woken yet, but once for both channels, when
    /// the normalized entries of these lines are shown.
    pub fn show_raw(&self, next: u64) {
        let mut state = self.state();
        state.is_due |= std::mem::replace(&mut state.raw_next, next) != next;
    }

    /// Shows new normalized entries, and at the same moment the message in progress, so that no reader sees
    /// a message twice. Wakes the readers if either channel has something new.
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

    /// Wakes the readers if raw entries are shown whose normalized entries could not be filed: a disk may
    /// be full for long, and the raw channel is readable meanwhile.
    pub fn wake_for_raw(&self) {
        self.wake(&mut self.state());
    }

    fn wake(&self, state: &mut LiveState) {
        if std::mem::take(&mut state.is_due) {
            self.changed.send_modify(|count| *count += 1);
            self.note_growth();
        }
    }

    /// A process has ended, and the log has all of its output: the log is shipped at once.
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

    /// How far both channels are, as shown: not what is on file and not shown yet.
    pub fn tip(&self) -> Tip {
        let state = self.state();
        Tip {
            raw: state.raw_next.checked_sub(1),
            normalized: state.ring.next.checked_sub(1),
            last_activity_at: state.last_activity_at,
        }
    }

    /// The message of the newest process that streams one.
    pub fn in_progress(&self) -> Option<InProgress> {
        self.state().in_progress.values().next_back().cloned()
    }

    /// The process that was begun last, since ids grow with time.
    pub fn newest_process(&self) -> Option<ProcessId> {
        self.state().processes.last().copied()
    }

    /// All processes of the log, the oldest first.
    pub fn processes(&self) -> BTreeSet<ProcessId> {
        self.state().processes.clone()
    }

    /// The normalized entries with these numbers; `None` unless all of them are in memory.
    pub fn newest(&self, range: &Range<u64>) -> Option<Vec<Entry>> {
        self.state().ring.get(range)
    }

    /// Grows by one each time the readers are woken.
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

//! What readers see of an attempt's log without touching a file: the newest entries, the
//! tips, the message in progress. The writer updates it once the entries are on file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;

use super::ring::{Entry, Ring};
use super::{LogLimits, Tip};
use crate::blocking::lock;
use crate::event::{Channel, Timestamp};
use crate::executor::InProgress;
use crate::ids::ProcessId;

const IN_PROGRESS_BYTES: usize = 4096;

const RAW: usize = Channel::Raw as usize;
const NORMALIZED: usize = Channel::Normalized as usize;

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
}

struct LiveState {
    rings: [Ring; 2],
    in_progress: BTreeMap<ProcessId, InProgress>,
    processes: BTreeSet<ProcessId>,
    last_activity_at: Option<Timestamp>,
}

impl Live {
    pub fn new(limits: LogLimits) -> Self {
        let ring = |_| Ring::new(0, limits.ring_entries, limits.ring_bytes);
        let state = LiveState {
            rings: [0; 2].map(ring),
            in_progress: BTreeMap::new(),
            processes: BTreeSet::new(),
            last_activity_at: None,
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(0) }
    }

    pub fn reset(
        &self,
        raw_next: u64,
        normalized_next: u64,
        processes: BTreeSet<ProcessId>,
        last_activity_at: Option<Timestamp>,
    ) {
        let mut state = self.state();
        state.rings[RAW].reset(raw_next);
        state.rings[NORMALIZED].reset(normalized_next);
        state.processes = processes;
        state.last_activity_at = last_activity_at;
    }

    pub fn add_process(&self, process: ProcessId) {
        self.state().processes.insert(process);
    }

    /// The executor wrote something at this time; the clock may have been set back.
    pub fn active(&self, at: Option<Timestamp>) {
        let mut state = self.state();
        state.last_activity_at = at.or(state.last_activity_at);
    }

    pub fn show_raw(&self, entries: Vec<Entry>, next: u64) {
        self.show(RAW, entries, |state| state.rings[RAW].reset(next));
    }

    /// Shows new normalized entries, and the message in progress at the same moment.
    pub fn show_normalized(&self, process: ProcessId, entries: Vec<Entry>, streamed: Streamed) {
        self.show(NORMALIZED, entries, |state| match streamed {
            Streamed::Unchanged => {}
            Streamed::Begun(message) => drop(state.in_progress.insert(process, tail(message))),
            Streamed::Ended => drop(state.in_progress.remove(&process)),
        });
    }

    fn show(&self, ring: usize, entries: Vec<Entry>, also: impl FnOnce(&mut LiveState)) {
        let is_new = !entries.is_empty();
        let mut state = self.state();
        for entry in entries {
            state.rings[ring].push(entry);
        }
        also(&mut state);
        if is_new {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    pub fn tip(&self) -> Tip {
        let state = self.state();
        Tip {
            raw: state.rings[RAW].next.checked_sub(1),
            normalized: state.rings[NORMALIZED].next.checked_sub(1),
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

    pub fn with_ring<T>(&self, channel: Channel, look: impl FnOnce(&Ring) -> T) -> T {
        look(&self.state().rings[channel as usize])
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

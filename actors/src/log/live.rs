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

/// How much of the end of a message in progress is shown, in bytes.
const IN_PROGRESS_BYTES: usize = 4096;

/// A change of a process's message in progress.
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
    raw: Ring,
    normalized: Ring,
    in_progress: BTreeMap<ProcessId, InProgress>,
    processes: BTreeSet<ProcessId>,
    last_activity_at: Option<Timestamp>,
}

impl Live {
    pub fn new(limits: LogLimits) -> Self {
        let ring = || Ring::new(0, limits.ring_entries, limits.ring_bytes);
        let state = LiveState {
            raw: ring(),
            normalized: ring(),
            in_progress: BTreeMap::new(),
            processes: BTreeSet::new(),
            last_activity_at: None,
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(0) }
    }

    /// Sets where the channels stand by the files.
    pub fn reset(
        &self,
        raw_next: u64,
        normalized_next: u64,
        processes: BTreeSet<ProcessId>,
        last_activity_at: Option<Timestamp>,
    ) {
        let mut state = self.state();
        state.raw.reset(raw_next);
        state.normalized.reset(normalized_next);
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
        let is_new = !entries.is_empty();
        let mut state = self.state();
        for entry in entries {
            state.raw.push(entry);
        }
        state.raw.reset(next);
        self.bump(is_new);
    }

    /// Shows new normalized entries, and the message in progress at the same moment.
    pub fn show_normalized(&self, process: ProcessId, entries: Vec<Entry>, streamed: Streamed) {
        let is_new = !entries.is_empty();
        let mut state = self.state();
        for entry in entries {
            state.normalized.push(entry);
        }
        match streamed {
            Streamed::Unchanged => {}
            Streamed::Begun(message) => drop(state.in_progress.insert(process, tail(message))),
            Streamed::Ended => drop(state.in_progress.remove(&process)),
        }
        self.bump(is_new);
    }

    pub fn tip(&self) -> Tip {
        let state = self.state();
        Tip {
            raw: state.raw.next().checked_sub(1),
            normalized: state.normalized.next().checked_sub(1),
            last_activity_at: state.last_activity_at,
        }
    }

    /// The newest process's message in progress.
    pub fn in_progress(&self) -> Option<InProgress> {
        self.state().in_progress.values().next_back().cloned()
    }

    pub fn processes(&self) -> BTreeSet<ProcessId> {
        self.state().processes.clone()
    }

    pub fn with_ring<T>(&self, channel: Channel, look: impl FnOnce(&Ring) -> T) -> T {
        let state = self.state();
        look(match channel {
            Channel::Raw => &state.raw,
            Channel::Normalized => &state.normalized,
        })
    }

    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn bump(&self, is_new: bool) {
        if is_new {
            self.changed.send_modify(|count| *count += 1);
        }
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

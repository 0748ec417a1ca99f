//! Which writers of an attempt wait for the disk, and why: told to whoever reads
//! its status. Live, and in no row, for there may be no room for one.

use std::collections::BTreeMap;

use crate::ids::ProcessId;

use super::message::Writer;
use super::run::State;

/// The writers that wait, each with its reason.
#[derive(Debug, Default)]
pub struct Waiting(BTreeMap<(ProcessId, Writer), String>);

impl State {
    /// A writer waits, or goes on.
    pub(super) fn disk(&mut self, process: ProcessId, writer: Writer, reason: Option<String>) {
        let waiting = &mut self.for_disk.0;
        match reason {
            // One that has been closed has nothing left to write.
            Some(reason) if self.turns.iter().any(|turn| turn.handle.process == process) => {
                waiting.insert((process, writer), reason);
            }
            _ => drop(waiting.remove(&(process, writer))),
        }
        self.tell_disk();
    }

    /// A turn has been closed.
    pub(super) fn disk_closed(&mut self, process: ProcessId) {
        self.for_disk.0.retain(|(waits, _), _| *waits != process);
        self.tell_disk();
    }

    fn tell_disk(&self) {
        let reason = self.for_disk.0.values().next().map(String::as_str);
        self.world.journal.waits_for_disk(self.attempt.attempt_id, reason);
    }
}

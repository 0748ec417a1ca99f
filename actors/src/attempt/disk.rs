//! Which writers of an attempt wait for the disk, and why: its status shows it. Kept in
//! memory only, for there may be no room for a row.

use crate::ids::ProcessId;

use super::message::DiskWriter;
use super::run::AttemptState;

impl AttemptState {
    /// A writer waits, or no longer does (`None`).
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

    /// A turn has been closed.
    pub(super) fn disk_closed(&mut self, process: ProcessId) {
        self.disk_waits.retain(|(waits, _), _| *waits != process);
        self.notify_disk();
    }

    fn notify_disk(&self) {
        let reason = self.disk_waits.values().next().map(String::as_str);
        self.world.journal.waits_for_disk(self.attempt.attempt_id, reason);
    }
}

//! The processes that stand above all others of an attempt: shims, leaders and claimed
//! orphans.

use std::collections::BTreeMap;
use std::path::Path;

use super::identity::Process;
use crate::ids::AttemptId;

/// Processes whose descendants belong to attempts; `None`: to a check, for example.
#[derive(Debug, Default)]
pub(super) struct Roots(BTreeMap<Process, Option<AttemptId>>);

impl Roots {
    pub(super) fn insert(&mut self, process: Process, attempt: Option<AttemptId>) {
        self.0.retain(|process, _| process.holds_its_pid());
        self.0.insert(process, attempt);
    }

    pub(super) fn holds(&self, process: Process) -> bool {
        self.0.contains_key(&process)
    }

    /// Whose a process is by itself, or by the session that a living leader began.
    #[expect(clippy::option_option, reason = "a known process of no attempt is an answer")]
    pub(super) fn owner(&self, process: Process, session: i32) -> Option<Option<AttemptId>> {
        let own = self.0.get(&process).copied();
        own.or_else(|| {
            let first = Process { pid: session, start_time: 0 };
            let last = Process { start_time: process.start_time, ..first };
            let mut leaders = self.0.range(first..=last);
            leaders.find(|(leader, _)| leader.holds_its_pid()).map(|(_, attempt)| *attempt)
        })
    }
}

/// The attempt of a process's folder; `None` for a check's.
pub(super) fn attempt_of(folder: &Path) -> Option<AttemptId> {
    folder.parent()?.file_name()?.to_str()?.parse().ok()
}

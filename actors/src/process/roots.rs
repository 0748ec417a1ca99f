//! The set of known processes (shims, leaders, orphans) whose descendants belong to an attempt or a check.

use std::collections::BTreeMap;

use super::identity::Process;
use crate::ids::AttemptId;

/// Known processes, each with the id of the attempt that it and its descendants belong to. A check run's id
/// takes the attempt's place for a check (`checks/process.rs`). `None`: the folder's name is no id.
#[derive(Debug, Default)]
pub(super) struct Roots {
    known: BTreeMap<Process, Option<AttemptId>>,
    /// How many entries there may be before the dead ones are dropped. To examine all entries at each insert
    /// would cost a daemon that adopts a thousand attempts a million reads of `/proc`.
    most: usize,
}

impl Roots {
    /// Adds a process. Now and then drops those whose pid is free again.
    pub(super) fn insert(&mut self, process: Process, attempt: Option<AttemptId>) {
        if self.known.len() >= self.most {
            self.known.retain(|process, _| process.holds_its_pid());
            self.most = self.known.len() * 2 + 16;
        }
        self.known.insert(process, attempt);
    }

    /// Whether this very process was inserted. Its descendants do not count.
    pub(super) fn holds(&self, process: Process) -> bool {
        self.known.contains_key(&process)
    }

    /// The owner of a process that is known itself, or whose session was begun by a known process that still
    /// holds its pid. `None`: neither is known. `session`: the session's number, which is the pid of the
    /// process that began it. That process is not younger than its members, hence the upper bound of the
    /// range.
    #[expect(clippy::option_option, reason = "a known process of no attempt is an answer")]
    pub(super) fn owner(&self, process: Process, session: i32) -> Option<Option<AttemptId>> {
        let own = self.known.get(&process).copied();
        own.or_else(|| {
            let first = Process { pid: session, start_time: 0 };
            let last = Process { start_time: process.start_time, ..first };
            let mut leaders = self.known.range(first..=last);
            leaders.find(|(leader, _)| leader.holds_its_pid()).map(|(_, attempt)| *attempt)
        })
    }
}

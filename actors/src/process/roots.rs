//! Processes that are known, and whose descendants belong to something.

use std::collections::BTreeMap;

use super::identity::Process;
use crate::ids::AttemptId;

/// Processes whose descendants belong to attempts; `None`: to a check, for example.
#[derive(Debug, Default)]
pub(super) struct Roots {
    known: BTreeMap<Process, Option<AttemptId>>,
    /// How many there may be before the dead are dropped: to look at all for each new one would
    /// cost a daemon that has a thousand attempts again a million looks.
    most: usize,
}

impl Roots {
    pub(super) fn insert(&mut self, process: Process, attempt: Option<AttemptId>) {
        if self.known.len() >= self.most {
            self.known.retain(|process, _| process.holds_its_pid());
            self.most = self.known.len() * 2 + 16;
        }
        self.known.insert(process, attempt);
    }

    pub(super) fn holds(&self, process: Process) -> bool {
        self.known.contains_key(&process)
    }

    /// Whose a process is by itself, or by the session that a living leader began.
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

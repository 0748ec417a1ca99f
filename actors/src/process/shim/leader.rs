//! The leader: the process whose end is the end of the execution process. Its states, and how
//! the shim learns its end.

use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::time::{Duration, Instant};

use crate::event::Timestamp;
use crate::process::cgroup::Cgroup;
use crate::process::identity::{PidFd, Process};
use crate::process::records::ExitRecord;
use crate::process::tree::{Marker, Tree};

/// How long the adopter may take to report a status.
const STATUS_BUDGET: Duration = Duration::from_secs(5);
const STATUS_LOST: &str =
    "the exit status is lost: the supervising process was killed and no parent was left to tell";

pub enum Kinship {
    /// Ours: wait(2) gives its status.
    Own,
    /// It was the child of a shim that has died, and is the adopter's now. Its handle shows
    /// that it died; the adopter reports its status, or the kernel once it is reaped.
    Adopted {
        /// `None` when it died before a handle on it was opened.
        handle: Option<PidFd>,
        adopter: i32,
        /// Its orphans that were known at the takeover.
        roots: Vec<Process>,
    },
}

/// How the leader ended; `None`: no process knows it any more.
pub type LeaderEnd = Option<ExitStatus>;

pub enum LeaderState {
    Running,
    /// Since then.
    Dead(Instant),
    /// Dead; `left` bytes of its output in each pipe are not in the spool yet.
    Draining {
        ending: LeaderEnd,
        at: Timestamp,
        left: [u64; 2],
    },
    Recorded(ExitRecord),
}

pub struct Leader {
    pub process: Process,
    pub kinship: Kinship,
    pub life: LeaderState,
}

impl Leader {
    pub fn watched(&self) -> Option<&PidFd> {
        match (&self.kinship, &self.life) {
            (Kinship::Adopted { handle, .. }, LeaderState::Running) => handle.as_ref(),
            _ => None,
        }
    }

    /// The record of its end, once it is on disk.
    pub fn record(&self) -> Option<&ExitRecord> {
        match &self.life {
            LeaderState::Recorded(record) => Some(record),
            _ => None,
        }
    }

    /// An adopted leader was seen dead.
    pub fn died(&mut self, now: Instant) {
        if matches!(self.life, LeaderState::Running) {
            self.life = LeaderState::Dead(now);
        }
    }

    /// Where to look for the processes that it has started.
    pub fn tree(&self, marker: Marker, cgroup: Option<Cgroup>) -> Tree {
        let tree = Tree { cgroup, ..Tree::without_shim(marker) };
        let Kinship::Adopted { adopter, roots, .. } = &self.kinship else {
            return Tree { below: Some(process::id().cast_signed()), adopter: None, ..tree };
        };
        let mut spared = tree.spared;
        spared.insert(*adopter);
        Tree {
            roots: roots.iter().copied().chain([self.process]).collect(),
            session_of: Some(self.process),
            adopter: Some(*adopter),
            spared,
            ..tree
        }
    }

    /// How a dead adopted leader ended; `None` while a report may still come.
    pub fn ending(&self, now: Instant) -> Option<LeaderEnd> {
        let (Kinship::Adopted { handle, .. }, LeaderState::Dead(since)) =
            (&self.kinship, &self.life)
        else {
            return None;
        };
        let is_late = now.duration_since(*since) > STATUS_BUDGET;
        let status = handle.as_ref().and_then(PidFd::exit_status);
        status.map(Some).or(is_late.then_some(None))
    }

    /// It has ended, and the pipes hold `left` bytes.
    pub fn ended(&mut self, ending: LeaderEnd, left: [u64; 2]) {
        if matches!(self.life, LeaderState::Running | LeaderState::Dead(_)) {
            self.life = LeaderState::Draining { ending, at: Timestamp::now(), left };
        }
    }

    /// `count` bytes of a stream went into the spool; `None`: its pipe is empty.
    pub fn drained(&mut self, stream: usize, count: Option<usize>) {
        if let LeaderState::Draining { left, .. } = &mut self.life {
            left[stream] = count.map_or(0, |count| left[stream].saturating_sub(count as u64));
        }
    }

    /// Whether it has ended and all that it wrote is in the spool.
    pub fn is_drained(&self) -> bool {
        matches!(self.life, LeaderState::Draining { left: [0, 0], .. })
    }

    /// The record to write, once all that it wrote is in the spool.
    pub fn record_due(&self, lengths: [u64; 2]) -> Option<ExitRecord> {
        let LeaderState::Draining { ending: status, at, left: [0, 0] } = self.life else {
            return None;
        };
        Some(ExitRecord {
            exit_code: status.and_then(|status| status.code()),
            exit_signal: status.and_then(|status| status.signal()),
            reason: status.is_none().then(|| STATUS_LOST.to_owned()),
            at,
            stdout_bytes: lengths[0],
            stderr_bytes: lengths[1],
            ..ExitRecord::unknown(STATUS_LOST)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader() -> Leader {
        let process = Process { pid: 1, start_time: 0 };
        Leader { process, kinship: Kinship::Own, life: LeaderState::Running }
    }

    #[test]
    fn the_record_is_due_when_the_pipes_are_drained_and_no_sooner() {
        let mut leader = leader();
        assert!(leader.record_due([0, 0]).is_none());
        leader.ended(Some(ExitStatus::from_raw(7 << 8)), [10, 5]);
        leader.drained(0, Some(4));
        leader.drained(1, Some(100));
        assert!(leader.record_due([0, 0]).is_none());
        leader.drained(0, None);
        let record = leader.record_due([20, 30]).unwrap();
        assert_eq!((record.exit_code, record.exit_signal), (Some(7), None));
        assert_eq!((record.stdout_bytes, record.stderr_bytes), (20, 30));
    }

    #[test]
    fn codes_and_signals_are_told_apart_and_the_first_end_counts() {
        let mut leader = leader();
        leader.ended(Some(ExitStatus::from_raw(9)), [0, 0]);
        leader.ended(None, [1, 1]);
        leader.died(Instant::now());
        let record = leader.record_due([0, 0]).unwrap();
        assert_eq!((record.exit_code, record.exit_signal), (None, Some(9)));
        assert_eq!(record.reason, None);
    }

    #[test]
    fn an_end_that_nobody_can_tell_says_so() {
        let mut leader = leader();
        leader.ended(None, [0, 0]);
        let record = leader.record_due([0, 0]).unwrap();
        assert_eq!((record.exit_code, record.exit_signal), (None, None));
        assert_eq!(record.reason.as_deref(), Some(STATUS_LOST));
    }
}

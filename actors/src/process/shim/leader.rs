//! The leader: the one process whose end is the end of the execution process.
//! Its states, and how its end is learnt; the supervisor acts on them.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::time::{Duration, Instant};

use crate::event::Timestamp;
use crate::process::cgroup::Cgroup;
use crate::process::identity::Process;
use crate::process::manifest::{ExitRecord, VERSION};
use crate::process::pidfd::PidFd;
use crate::process::tree::{Marker, Tree};

/// How long a status may take that the adopter has to report.
const STATUS_BUDGET: Duration = Duration::from_secs(5);
/// Why a status is not known.
pub const STATUS_LOST: &str =
    "the exit status is lost: the supervising process was killed and no parent was left to tell";

/// Whose child the leader is.
#[derive(Debug)]
pub enum Kinship {
    /// Ours: waiting for it tells its status.
    Own,
    /// It was the child of a shim that has died, and now is the adopter's. Its handle
    /// shows that it died; the adopter reports its status, or the kernel once it is
    /// reaped.
    Adopted {
        /// `None` when it died before a handle on it was opened.
        handle: Option<PidFd>,
        adopter: i32,
        /// Its orphans, as far as they were known when it was taken over.
        roots: Vec<Process>,
    },
}

/// How the leader ended, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub enum LeaderEnd {
    Known(ExitStatus),
    /// No process is left that knows it.
    Lost,
}

/// Where the leader stands.
#[derive(Debug)]
pub enum LeaderState {
    Running,
    /// Dead, status not known yet.
    Dead {
        since: Instant,
    },
    /// Dead; so many bytes of what it left in each pipe are not in the spool yet.
    Draining {
        ending: LeaderEnd,
        at: Timestamp,
        left: [u64; 2],
    },
    /// The record is on disk.
    Recorded(ExitRecord),
}

/// The leader and what is known of it.
#[derive(Debug)]
pub struct Leader {
    pub process: Process,
    pub kinship: Kinship,
    pub life: LeaderState,
}

impl Leader {
    /// Its handle, when its death has to be watched for.
    pub fn watched(&self) -> Option<&PidFd> {
        match (&self.kinship, &self.life) {
            (Kinship::Adopted { handle, .. }, LeaderState::Running) => handle.as_ref(),
            _ => None,
        }
    }

    /// Whether its end is known and on disk.
    pub fn record(&self) -> Option<&ExitRecord> {
        match &self.life {
            LeaderState::Recorded(record) => Some(record),
            _ => None,
        }
    }

    /// An adopted leader was seen dead.
    pub fn died(&mut self, now: Instant) {
        if matches!(self.life, LeaderState::Running) {
            self.life = LeaderState::Dead { since: now };
        }
    }

    /// Where to look for the processes that it has started.
    pub fn tree(&self, marker: Marker, cgroup: Option<Cgroup>) -> Tree {
        let own = process::id().cast_signed();
        let mut tree = Tree {
            below: Some(own),
            roots: Vec::new(),
            session_of: None,
            adopter: None,
            cgroup,
            marker,
            spared: BTreeSet::from([own]),
        };
        if let Kinship::Adopted { adopter, roots, .. } = &self.kinship {
            tree.below = None;
            tree.roots = roots.iter().copied().chain([self.process]).collect();
            tree.session_of = Some(self.process);
            tree.adopter = Some(*adopter);
            tree.spared.insert(*adopter);
        }
        tree
    }

    /// How an adopted leader that is dead has ended; `None` when that may still come.
    pub fn ending(&self, now: Instant) -> Option<LeaderEnd> {
        let (Kinship::Adopted { handle, .. }, LeaderState::Dead { since }) =
            (&self.kinship, &self.life)
        else {
            return None;
        };
        let is_late = now.duration_since(*since) > STATUS_BUDGET;
        let status = handle.as_ref().and_then(PidFd::exit_status);
        status.map(LeaderEnd::Known).or(is_late.then_some(LeaderEnd::Lost))
    }

    /// It has ended, and the pipes held so many bytes then.
    pub fn ended(&mut self, ending: LeaderEnd, left: [u64; 2]) {
        if matches!(self.life, LeaderState::Running | LeaderState::Dead { .. }) {
            self.life = LeaderState::Draining { ending, at: Timestamp::now(), left };
        }
    }

    /// `count` bytes of a stream went into the spool; `None`: its pipe is empty.
    pub fn drained(&mut self, stream: usize, count: Option<usize>) {
        if let LeaderState::Draining { left, .. } = &mut self.life {
            left[stream] = count.map_or(0, |count| left[stream].saturating_sub(count as u64));
        }
    }

    /// Whether it has ended and its pipes hold no more of what it wrote.
    pub fn is_drained(&self) -> bool {
        matches!(self.life, LeaderState::Draining { left: [0, 0], .. })
    }

    /// What to write down, once all that it wrote is in the spool.
    pub fn record_due(&self, lengths: [u64; 2]) -> Option<ExitRecord> {
        let LeaderState::Draining { ending, at, left: [0, 0] } = &self.life else { return None };
        let status = match ending {
            LeaderEnd::Known(status) => Some(status),
            LeaderEnd::Lost => None,
        };
        Some(ExitRecord {
            v: VERSION,
            exit_code: status.and_then(ExitStatus::code),
            exit_signal: status.and_then(ExitStatusExt::signal),
            reason: status.is_none().then(|| STATUS_LOST.to_owned()),
            limit: None,
            stopped: None,
            at: *at,
            stdout_bytes: lengths[0],
            stderr_bytes: lengths[1],
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
        leader.ended(LeaderEnd::Known(ExitStatus::from_raw(7 << 8)), [10, 5]);
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
        leader.ended(LeaderEnd::Known(ExitStatus::from_raw(9)), [0, 0]);
        leader.ended(LeaderEnd::Lost, [1, 1]);
        leader.died(Instant::now());
        let record = leader.record_due([0, 0]).unwrap();
        assert_eq!((record.exit_code, record.exit_signal), (None, Some(9)));
        assert_eq!(record.reason, None);
    }

    #[test]
    fn an_end_that_nobody_can_tell_says_so() {
        let mut leader = leader();
        leader.ended(LeaderEnd::Lost, [0, 0]);
        let record = leader.record_due([0, 0]).unwrap();
        assert_eq!((record.exit_code, record.exit_signal), (None, None));
        assert_eq!(record.reason.as_deref(), Some(STATUS_LOST));
    }
}

//! The leader: the process whose end is the end of the execution process. Its states ([`LeaderState`]; the
//! transitions are drawn in `shim/mod.rs`), and how the shim learns its end:
//!
//! ```text
//!  Own       SIGCHLD ─▶ waitid(WNOWAIT) gives the status ────────────────────────▶ ended
//!  Adopted   the handle is readable ─▶ died ─▶ the kernel keeps the status, or
//!                                              the daemon reports it, or
//!                                              STATUS_BUDGET is over: unknown ───▶ ended
//! ```

use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::time::{Duration, Instant};

use crate::event::Timestamp;
use crate::process::cgroup::Cgroup;
use crate::process::identity::{PidFd, Process};
use crate::process::records::ExitRecord;
use crate::process::tree::{Marker, Tree};

/// How long the adopter may take to report the status of a dead leader.
const STATUS_BUDGET: Duration = Duration::from_secs(5);
const STATUS_LOST: &str =
    "the exit status is lost: the supervising process was killed and no parent was left to tell";

/// Whether this shim is the leader's parent.
pub enum Kinship {
    /// The leader is a child of this shim: wait(2) gives its status.
    Own,
    /// The leader was the child of a shim that has died, and is now the adopter's child. Its handle shows
    /// when it dies. The adopter reports its status, or the kernel keeps it once the leader is reaped
    /// (Linux 6.15).
    Adopted {
        /// `None` when it died before a handle on it was opened.
        handle: Option<PidFd>,
        /// The pid of the daemon: the parent of this rescue shim.
        adopter: i32,
        /// The orphans that were known at the takeover.
        roots: Vec<Process>,
    },
}

/// How the leader ended; `None`: its status is lost.
pub type LeaderEnd = Option<ExitStatus>;

/// How far the end of the leader has come.
pub enum LeaderState {
    Running,
    /// Dead since then, and its status is not known yet. Only an adopted leader has this state.
    Dead(Instant),
    /// Dead, with its status (`ending`) and the time of its end. So many bytes of its output are still in
    /// each pipe.
    Draining {
        ending: LeaderEnd,
        at: Timestamp,
        left: [u64; 2],
    },
    /// The record is on disk.
    Recorded(ExitRecord),
}

/// The leader and what the shim knows of its end.
pub struct Leader {
    pub process: Process,
    pub kinship: Kinship,
    pub life: LeaderState,
}

impl Leader {
    /// The handle to poll for the leader's death. `None` for an own child, whose death SIGCHLD reports, and
    /// once the leader is dead.
    pub fn watched(&self) -> Option<&PidFd> {
        match (&self.kinship, &self.life) {
            (Kinship::Adopted { handle, .. }, LeaderState::Running) => handle.as_ref(),
            _ => None,
        }
    }

    /// The exit record, once it is on disk.
    pub fn record(&self) -> Option<&ExitRecord> {
        match &self.life {
            LeaderState::Recorded(record) => Some(record),
            _ => None,
        }
    }

    /// The handle of an adopted leader has shown its death.
    pub fn died(&mut self, now: Instant) {
        if matches!(self.life, LeaderState::Running) {
            self.life = LeaderState::Dead(now);
        }
    }

    /// Where to search for the leader's tree. A parent searches below itself. A rescue shim has the tree
    /// beside it, below the adopter.
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

    /// How a dead adopted leader ended, as `Some`: `Some(None)` once [`STATUS_BUDGET`] is over. `None`: it
    /// lives, is our own child, or a report may still come.
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

    /// The leader has ended, and its pipes hold `left` bytes now. The first call counts; later ones are
    /// ignored.
    pub fn ended(&mut self, ending: LeaderEnd, left: [u64; 2]) {
        if matches!(self.life, LeaderState::Running | LeaderState::Dead(_)) {
            self.life = LeaderState::Draining { ending, at: Timestamp::now(), left };
        }
    }

    /// `count` bytes of a stream went into the spool. `None`: its pipe is empty or closed, so nothing is
    /// left.
    pub fn drained(&mut self, stream: usize, count: Option<usize>) {
        if let LeaderState::Draining { left, .. } = &mut self.life {
            left[stream] = count.map_or(0, |count| left[stream].saturating_sub(count as u64));
        }
    }

    /// Whether the leader has ended and all that it wrote has left the pipes.
    pub fn is_drained(&self) -> bool {
        matches!(self.life, LeaderState::Draining { left: [0, 0], .. })
    }

    /// The record to write, once [`Self::is_drained`]. `lengths`: the bytes spooled of each stream.
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
    fn codes_and_signals_are_distinguished_and_the_first_end_counts() {
        let mut leader = leader();
        leader.ended(Some(ExitStatus::from_raw(9)), [0, 0]);
        leader.ended(None, [1, 1]);
        leader.died(Instant::now());
        let record = leader.record_due([0, 0]).unwrap();
        assert_eq!((record.exit_code, record.exit_signal), (None, Some(9)));
        assert_eq!(record.reason, None);
    }

    #[test]
    fn an_end_that_is_unknown_says_so() {
        let mut leader = leader();
        leader.ended(None, [0, 0]);
        let record = leader.record_due([0, 0]).unwrap();
        assert_eq!((record.exit_code, record.exit_signal), (None, None));
        assert_eq!(record.reason.as_deref(), Some(STATUS_LOST));
    }
}

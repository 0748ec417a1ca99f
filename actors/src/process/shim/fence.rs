//! The shim's part of the lease: it stops its tree by itself when the lease of its host is late, and
//! lets it go on when that is renewed. So nothing runs on when the host counts as lost, whatever has
//! become of the daemon.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::limits::OnLeaseLate;
use crate::process::identity::Process;
use crate::process::kill::{freeze_tree, thaw_tree};
use crate::process::lease::{self, LeaseState, StartedUnder};
use crate::process::records::{self, Manifest};
use crate::process::tree::Tree;

/// Between two looks at a lease that is late.
const AGAIN: Duration = Duration::from_millis(250);
/// Between two kills of what survives one.
const KILL_AGAIN: Duration = Duration::from_secs(2);
/// What was stopped: a shim that takes over lets it go on. It is there while the tree stands still.
const FILE: &str = "frozen.json";
const LATE: &str = "the lease of its host was late, and on_lease_late is \"kill\"";
const FENCED: &str = "its host was given up, because the lease was over";

pub struct Fence {
    under: StartedUnder,
    policy: OnLeaseLate,
    boot: u128,
    /// Fires also when its time passes while the machine is suspended.
    timer: OwnedFd,
    frozen: Option<Frozen>,
}

struct Frozen {
    since: Instant,
    /// What stood still before is not among them.
    stopped: BTreeSet<Process>,
}

/// What is to be done with the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Leave,
    /// Also when it is frozen: another process may have continued one of it.
    Freeze,
    Thaw,
    /// For this reason.
    Kill(&'static str),
}

/// Decides. Pure.
fn step(standing: LeaseState, policy: OnLeaseLate, is_frozen: bool) -> Step {
    match (standing, policy) {
        (LeaseState::Fenced, _) => Step::Kill(FENCED),
        (LeaseState::Good { .. }, _) if is_frozen => Step::Thaw,
        (LeaseState::Good { .. }, _) | (LeaseState::Late, OnLeaseLate::RunOn) => Step::Leave,
        (LeaseState::Late, OnLeaseLate::Freeze) => Step::Freeze,
        (LeaseState::Late, OnLeaseLate::Kill) => Step::Kill(LATE),
    }
}

/// When to look next, in nanoseconds of [`lease::now`]. Pure.
fn next_look(standing: LeaseState, step: Step, now: u64) -> u64 {
    let after = |pause: Duration| now + u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
    match (standing, step) {
        (LeaseState::Good { until }, _) => until,
        (_, Step::Kill(_)) => after(KILL_AGAIN),
        _ => after(AGAIN),
    }
}

impl Fence {
    /// `None`: the host has no lease. Looks at once.
    pub fn new(manifest: &Manifest) -> io::Result<Option<Self>> {
        let Some(under) = manifest.lease.clone() else { return Ok(None) };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        // An unreadable one: there is nothing to continue.
        let stopped: Option<BTreeSet<Process>> =
            records::read(Path::new("."), FILE).unwrap_or_default();
        let frozen = stopped.map(|stopped| Frozen { since: Instant::now(), stopped });
        let policy = manifest.on_lease_late;
        let fence = Self { under, policy, boot: lease::boot(), timer, frozen };
        fence.arm(lease::now())?;
        Ok(Some(fence))
    }

    pub fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Looks at the lease, and sets the timer for the next look.
    pub fn look(&self) -> Step {
        let standing = self.under.standing(self.boot);
        let step = step(standing, self.policy, self.is_frozen());
        // It can fail only for a wrong argument.
        let _ = self.arm(next_look(standing, step, lease::now()));
        step
    }

    /// Also discards that it has fired.
    fn arm(&self, at: u64) -> io::Result<()> {
        let secs = i64::try_from(at / 1_000_000_000).unwrap_or(i64::MAX);
        // 0 would disarm it.
        let nanos = i64::try_from(at % 1_000_000_000).unwrap_or_default().max(1);
        let value = Timespec { tv_sec: secs, tv_nsec: nanos };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Stops what runs of the tree.
    pub fn freeze(&mut self, tree: &Tree) {
        let new = || Frozen { since: Instant::now(), stopped: BTreeSet::new() };
        let frozen = self.frozen.get_or_insert_with(new);
        freeze_tree(tree, &mut frozen.stopped, &mut |stopped| {
            // Without the file only a shim that takes over can't continue them.
            let _ = serde_json::to_vec(stopped).map(|bytes| fs::write(FILE, bytes));
        });
    }

    /// Continues what was stopped. Returns how long it stood still.
    pub fn thaw(&mut self, tree: &Tree) -> Duration {
        let Some(Frozen { since, stopped }) = self.frozen.take() else { return Duration::ZERO };
        thaw_tree(tree, &stopped);
        let _ = fs::remove_file(FILE);
        since.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_lease_is_answered_as_the_executor_wants_and_a_lost_one_by_a_kill() {
        use OnLeaseLate::{Freeze, Kill, RunOn};
        let good = LeaseState::Good { until: 9 };
        for policy in [Freeze, Kill, RunOn] {
            assert_eq!(step(good, policy, false), Step::Leave);
            assert_eq!(step(good, policy, true), Step::Thaw);
            assert_eq!(step(LeaseState::Fenced, policy, true), Step::Kill(FENCED));
        }
        for is_frozen in [false, true] {
            assert_eq!(step(LeaseState::Late, Freeze, is_frozen), Step::Freeze);
        }
        assert_eq!(step(LeaseState::Late, Kill, false), Step::Kill(LATE));
        assert_eq!(step(LeaseState::Late, RunOn, false), Step::Leave);
    }

    #[test]
    fn a_good_lease_is_left_alone_until_its_end_and_a_late_one_looked_at_often() {
        let look = |standing, step| next_look(standing, step, 1000);
        assert_eq!(look(LeaseState::Good { until: 5000 }, Step::Leave), 5000);
        for step in [Step::Freeze, Step::Leave] {
            assert_eq!(look(LeaseState::Late, step), 1000 + 250_000_000);
        }
        assert_eq!(look(LeaseState::Fenced, Step::Kill(FENCED)), 1000 + 2_000_000_000);
    }
}

//! The shim's part of the lease: it freezes its tree by itself when the lease of its host is late, and thaws
//! it when the lease is renewed. So nothing of the tree runs when other hosts count this host as lost, even
//! if the daemon hangs or is dead.
//!
//! ```text
//!                late, policy freeze
//!   running ───────────────────────────▶ frozen ──┐ late: freeze again, each 250 ms, since another
//!     │  ▲                                │  ▲     │ process may have continued a member
//!     │  └──────────── good ──────────────┘  └────┘
//!     │                                   │
//!     └── fenced; or late, policy kill ───┴──▶ kill, each 2 s until the tree is gone
//! ```
//!
//! A timer of CLOCK_BOOTTIME drives it ([`Fence::look`]); so does each new connection. `frozen.json` keeps
//! the set of stopped processes for a rescue shim.

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
use crate::process::cgroup::Cgroup;
use crate::process::identity::Process;
use crate::process::kill::{freeze_tree, thaw_tree};
use crate::process::lease::{self, LeaseState, StartedUnder};
use crate::process::records::{self, Manifest};
use crate::process::tree::Tree;

/// The pause between two looks at a lease that is late.
const AGAIN: Duration = Duration::from_millis(250);
/// The pause between two kills, while the tree has survivors.
const KILL_AGAIN: Duration = Duration::from_secs(2);
/// The file with the stopped processes. It exists while the tree is frozen, so that a rescue shim can
/// continue them.
const FILE: &str = "frozen.json";
/// Its name until it is complete.
const NEXT: &str = ".frozen.json.tmp";
/// The file with the nanoseconds in which the tree was frozen.
const PAUSES: &str = "stood_still.json";
const LATE: &str = "the lease of its host was late, and on_lease_late is \"kill\"";
const FENCED: &str = "its host was given up, because the lease was over";

/// The fence of one tree. The supervisor asks it for the next step and carries the step out with it.
pub struct Fence {
    /// The lease under which the tree was started.
    under: StartedUnder,
    policy: OnLeaseLate,
    boot: u128,
    /// A timer that also counts suspended time: after a long suspension it fires at once.
    timer: OwnedFd,
    frozen: Option<Frozen>,
}

struct Frozen {
    since: Instant,
    /// Those that the freeze has stopped. Processes that were stopped before are not among them.
    stopped: BTreeSet<Process>,
}

/// What the supervisor has to do with the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Leave,
    /// Comes also while the tree is frozen: another process may have continued a member.
    Freeze,
    Thaw,
    /// The reason is for the exit record.
    Kill(&'static str),
}

/// Decides the next step. Pure.
fn step(standing: LeaseState, policy: OnLeaseLate, is_frozen: bool) -> Step {
    match (standing, policy) {
        (LeaseState::Fenced, _) => Step::Kill(FENCED),
        (LeaseState::Good { .. }, _) if is_frozen => Step::Thaw,
        (LeaseState::Good { .. }, _) | (LeaseState::Late, OnLeaseLate::RunOn) => Step::Leave,
        (LeaseState::Late, OnLeaseLate::Freeze) => Step::Freeze,
        (LeaseState::Late, OnLeaseLate::Kill) => Step::Kill(LATE),
    }
}

/// When to look next, in nanoseconds of [`lease::now`]: at the end of a good lease, else after a pause. Pure.
fn next_look(standing: LeaseState, step: Step, now: u64) -> u64 {
    let after = |pause: Duration| now + u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
    match (standing, step) {
        (LeaseState::Good { until }, _) => until,
        (_, Step::Kill(_)) => after(KILL_AGAIN),
        _ => after(AGAIN),
    }
}

/// What a dead shim has stopped in the process of this folder; `None`: nothing. A cgroup shows by itself that
/// it is frozen. Of a record that can't be read, only the cgroup is known to be continued.
fn stopped_before(cgroup: Option<&Cgroup>, dir: &Path) -> Option<BTreeSet<Process>> {
    let recorded = records::read(dir, FILE).unwrap_or_else(|_| Some(BTreeSet::new()));
    recorded.or_else(|| cgroup.filter(|it| it.is_frozen()).map(|_| BTreeSet::new()))
}

/// Records what is about to be stopped, whole or not at all. It needs no sync: after a power failure nothing
/// is stopped any more.
fn record(stopped: &BTreeSet<Process>, dir: &Path) -> io::Result<()> {
    let next = dir.join(NEXT);
    fs::write(&next, serde_json::to_vec(stopped)?)?;
    fs::rename(next, dir.join(FILE))
}

/// How long the tree of this folder was frozen in all, as far as it was thawed again by one and the same
/// shim.
pub fn stood_still(dir: &Path) -> Duration {
    Duration::from_nanos(records::read(dir, PAUSES).ok().flatten().unwrap_or_default())
}

/// Adds a pause to what [`stood_still`] returns. Best effort: only a rescue shim would count the pause.
fn add_pause(pause: Duration, dir: &Path) {
    let all = u64::try_from((stood_still(dir) + pause).as_nanos()).unwrap_or(u64::MAX);
    let _ = records::write_durably(dir, PAUSES, &all);
}

impl Fence {
    /// `None`: the manifest names no lease. The timer fires at once, for a first look. After a rescue,
    /// continues with the freeze of the dead shim.
    pub fn new(manifest: &Manifest) -> io::Result<Option<Self>> {
        let Some(under) = manifest.lease.clone() else { return Ok(None) };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let frozen = stopped_before(manifest.cgroup.as_ref(), Path::new("."));
        let frozen = frozen.map(|stopped| Frozen { since: Instant::now(), stopped });
        let policy = manifest.on_lease_late;
        let fence = Self { under, policy, boot: lease::boot(), timer, frozen };
        fence.arm(lease::now())?;
        Ok(Some(fence))
    }

    /// To be polled: readable when a look is due. [`Self::look`] clears it.
    pub fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Whether the fence has frozen the tree and not thawed it. Also `true` while a frozen tree is killed.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Looks at the lease, and sets the timer for the next look.
    pub fn look(&self) -> Step {
        let standing = self.under.standing(self.boot);
        let step = step(standing, self.policy, self.is_frozen());
        // timerfd_settime(2) fails only for wrong arguments.
        let _ = self.arm(next_look(standing, step, lease::now()));
        step
    }

    /// Sets the timer to an absolute time. That also clears an expiration that was not read.
    fn arm(&self, at: u64) -> io::Result<()> {
        let secs = i64::try_from(at / 1_000_000_000).unwrap_or(i64::MAX);
        // A value of 0 would disarm the timer.
        let nanos = i64::try_from(at % 1_000_000_000).unwrap_or_default().max(1);
        let value = Timespec { tv_sec: secs, tv_nsec: nanos };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Stops the running members of the tree, and records them before that.
    pub fn freeze(&mut self, tree: &Tree) {
        let new = || Frozen { since: Instant::now(), stopped: BTreeSet::new() };
        let frozen = self.frozen.get_or_insert_with(new);
        freeze_tree(tree, &mut frozen.stopped, &mut |stopped| {
            // Best effort: if the write fails, only a rescue shim could not continue them.
            let _ = record(stopped, Path::new("."));
        });
    }

    /// Continues the stopped processes. Returns how long the tree was frozen, as far as this shim knows.
    pub fn thaw(&mut self, tree: &Tree) -> Duration {
        let Some(Frozen { since, stopped }) = self.frozen.take() else { return Duration::ZERO };
        thaw_tree(tree, &stopped);
        let pause = since.elapsed();
        add_pause(pause, Path::new("."));
        let _ = fs::remove_file(FILE);
        pause
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
    fn pauses_add_up() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(stood_still(dir.path()), Duration::ZERO);
        for _ in 0..2 {
            add_pause(Duration::from_secs(3), dir.path());
        }
        assert_eq!(stood_still(dir.path()), Duration::from_secs(6));
    }

    #[test]
    fn a_frozen_cgroup_is_known_without_a_record() {
        let dir = tempfile::tempdir().unwrap();
        // A folder in which the kernel does nothing.
        let cgroup = Cgroup::named(dir.path(), "x");
        cgroup.make().unwrap();
        assert_eq!(stopped_before(Some(&cgroup), dir.path()), None);
        cgroup.freeze(true);
        assert_eq!(stopped_before(Some(&cgroup), dir.path()), Some(BTreeSet::new()));
        let stopped = BTreeSet::from([Process { pid: 7, start_time: 1 }]);
        record(&stopped, dir.path()).unwrap();
        assert_eq!(stopped_before(None, dir.path()), Some(stopped));
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

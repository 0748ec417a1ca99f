//! The identity of a process: its pid and when it started. A pid alone identifies no process,
//! since the kernel reuses it.

use serde::{Deserialize, Serialize};

use super::pidfd::PidFd;
use super::proc::Stat;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    pub start_time: u64,
}

impl Process {
    /// The living process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| !stat.is_dead())?;
        Some(Self { pid, start_time: stat.start_time })
    }

    /// Whether it is alive; a zombie is dead.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Whether it exists, alive or as a zombie, so that its pid is taken.
    pub fn holds_its_pid(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start_time == self.start_time)
    }

    /// A handle on it, `None` when it is dead. Checks the start time after opening.
    pub fn open(self) -> Option<PidFd> {
        let handle = PidFd::open(self.pid).ok()?;
        self.is_alive().then_some(handle)
    }

    /// Sends a signal; `false` when it is dead or not ours to signal.
    pub fn signal(self, signal: i32) -> bool {
        self.open().is_some_and(|handle| handle.signal(signal).is_ok())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need real children")]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::event::Timestamp;
    use crate::process::manifest::{Started, VERSION};
    use crate::process::proc;

    #[test]
    fn another_process_with_the_same_pid_is_a_different_one() {
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive());

        let earlier = Process { start_time: own.start_time - 1, ..own };
        assert!(!earlier.is_alive());
        assert!(earlier.open().is_none());
        assert!(!earlier.signal(nix::libc::SIGKILL));

        let mut started = Started {
            v: VERSION,
            epoch: 1,
            pid: own.pid,
            start_time: own.start_time,
            boot_id: proc::boot_id().unwrap(),
            at: Timestamp::now(),
            limits: Vec::new(),
        };
        assert_eq!(started.of_this_boot(), Some(own));
        started.boot_id = "another".into();
        assert_eq!(started.of_this_boot(), None);
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        assert!(PidFd::open(pid).unwrap().wait_dead(Duration::from_mins(1)));
        assert!(Stat::of(pid).is_some(), "not reaped yet");
        assert!(Process::of(pid).is_none());
        child.wait().unwrap();
    }
}

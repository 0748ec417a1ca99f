//! The identity of a process: its pid, when it started, and in which boot. A pid alone
//! identifies no process, since the kernel reuses it.

use std::io;

use serde::{Deserialize, Serialize};

use super::manifest::Started;
use super::pidfd::PidFd;
use super::proc::{self, Stat};

/// A process of this boot, as [`Stat`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// Clock ticks after boot.
    pub start_time: u64,
}

impl Process {
    /// The living process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| !stat.is_dead())?;
        Some(Self { pid, start_time: stat.start_time })
    }

    /// Whether it lives still; a zombie is dead.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Whether it is there, alive or as a zombie: so its pid is taken.
    pub fn holds_its_pid(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start_time == self.start_time)
    }

    /// A handle on it, `None` when it is dead. The start time is read after
    /// the handle is open: what it tells holds for the handle from then on.
    pub fn open(self) -> Option<PidFd> {
        let handle = PidFd::open(self.pid).ok()?;
        self.is_alive().then_some(handle)
    }

    /// Sends a signal; `false` when it is dead or not ours to signal.
    pub fn signal(self, signal: i32) -> bool {
        self.open().is_some_and(|handle| handle.signal(signal).is_ok())
    }
}

/// A process of any boot, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub process: Process,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
}

impl Identity {
    /// The living process that has this pid now.
    ///
    /// # Errors
    /// `NotFound` when there is none; else the boot id can't be read.
    pub fn of(pid: i32) -> io::Result<Self> {
        let process = Process::of(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { process, boot_id: proc::boot_id()? })
    }

    /// Whether it lives still; a zombie is dead, and so is all of another boot.
    pub fn is_alive(&self) -> bool {
        self.of_this_boot().is_some_and(Process::is_alive)
    }

    /// The process, unless it is one of another boot.
    pub fn of_this_boot(&self) -> Option<Process> {
        proc::boot_id().is_ok_and(|boot_id| boot_id == self.boot_id).then_some(self.process)
    }
}

impl From<&Started> for Identity {
    fn from(started: &Started) -> Self {
        Self {
            process: Process { pid: started.pid, start_time: started.start_time },
            boot_id: started.boot_id.clone(),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need real children")]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn another_process_with_the_same_pid_is_somebody_else() {
        let own = Identity::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive());

        let mut earlier = own.clone();
        earlier.process.start_time -= 1;
        assert!(!earlier.is_alive());
        assert!(earlier.process.open().is_none());
        assert!(!earlier.process.signal(nix::libc::SIGKILL));

        let before_the_reboot = Identity { boot_id: "another".into(), ..own };
        assert!(!before_the_reboot.is_alive());
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

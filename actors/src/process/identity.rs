//! The identity of a process, and handles on it. A pid alone does not identify a process, since the kernel
//! reuses it. A pid with a start time does, and so does a handle (pidfd_open(2), Linux 5.3).
//! Executors and orphans are reaped here only.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal,
    wait, waitid, waitpid,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::proc::{self, Stat};

/// A process of this boot. It may be dead: [`Process::is_alive`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// [`Stat::start_time`].
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

    /// Whether it exists, alive or as a zombie. As long as it does, its pid and the number of its process
    /// group belong to no other process.
    pub fn holds_its_pid(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start_time == self.start_time)
    }

    /// A handle on it; `None`: it is dead. Compares the start time after it has opened the handle: in the
    /// other order, the pid could pass to another process in between.
    pub fn open(self) -> Option<PidFd> {
        let handle = PidFd::open(self.pid).ok()?;
        self.is_alive().then_some(handle)
    }

    /// Sends a signal by a handle, so that no later process with the pid gets it. `false`: it is dead, or
    /// this user may not signal it.
    pub fn signal(self, signal: i32) -> bool {
        self.open().is_some_and(|handle| handle.signal(signal).is_ok())
    }
}

/// The process at the other end of a socket.
pub struct Peer {
    /// 0: a process that this PID namespace does not show.
    pub(super) pid: i32,
    /// `None`: it has ended.
    pub(super) handle: Option<PidFd>,
}

impl Peer {
    /// The peer at the time of its connect(2), or of socketpair(2). Fails if the socket is not a Unix socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let pid = getsockopt(socket, PeerCredentials)?.pid();
        let handle = match getsockopt(socket, PeerPidfd) {
            Ok(handle) => Some(PidFd(handle)),
            // Linux before 6.5 has no SO_PEERPIDFD. This opens the process that has the pid now, which may
            // be a later one.
            Err(Errno::ENOPROTOOPT) if pid > 0 => PidFd::open(pid).ok(),
            Err(_) => None,
        };
        Ok(Self { pid, handle })
    }

    /// Asks `of` about the pid, and returns the answer only if the peer is still alive afterwards. `None`:
    /// the peer has ended or is not visible, so the answer may be about another process with the same pid.
    pub(super) fn sure<T>(&self, of: impl FnOnce(i32) -> T) -> Option<T> {
        if self.pid <= 0 {
            return None;
        }
        let found = of(self.pid);
        // A process that is alive now has had its pid all the time.
        let is_alive = self.handle.as_ref().is_some_and(|it| !it.wait_dead(Duration::ZERO));
        is_alive.then_some(found)
    }

    /// The handle on it; `None`: it had ended before [`Peer::of`] was called.
    pub(super) fn into_handle(self) -> Option<PidFd> {
        self.handle
    }
}

/// A pidfd: refers to one process, alive or dead, even after its pid has passed to another process.
#[derive(Debug)]
pub struct PidFd(pub(super) OwnedFd);

impl PidFd {
    /// The process that has this pid now; ESRCH when there is none.
    pub fn open(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends a signal by its number, not a real-time one; ESRCH once the process is reaped.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Blocks until the process is dead, reaped or not. `false`: the time was up first. Goes on after a
    /// signal: poll(2) is never restarted.
    pub fn wait_dead(&self, timeout: Duration) -> bool {
        let began = Instant::now();
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Err(Errno::EINTR) => {}
                ready => return ready.is_ok_and(|ready| ready > 0),
            }
        }
    }

    /// Waits until the process is dead, reaped or not, without holding a thread.
    pub async fn dead(self) -> io::Result<()> {
        // SAFETY: this is the handle's own descriptor, always the same one, and
        // open until the handle is dropped, after its registration.
        let handle = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) };
        let handle = handle.map_err(|error| error.into_parts().1)?;
        handle.readable().await.map(drop)
    }

    /// How the process ended, once any process has reaped it.
    /// `None` before that, and on kernels before Linux 6.15, which don't keep it.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let mut info = MaybeUninit::<libc::pidfd_info>::zeroed();
        // SAFETY: `info` is a zeroed structure of the size that the request's number carries.
        let result = unsafe {
            (*info.as_mut_ptr()).mask = u64::from(libc::PIDFD_INFO_EXIT);
            libc::ioctl(self.0.as_raw_fd(), libc::PIDFD_GET_INFO, info.as_mut_ptr())
        };
        // SAFETY: all of it is integers, and it was zeroed.
        let info = unsafe { info.assume_init() };
        let known = result == 0 && info.mask & u64::from(libc::PIDFD_INFO_EXIT) != 0;
        known.then(|| ExitStatus::from_raw(info.exit_code))
    }
}

/// The result of [`reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    Child(i32, ExitStatus),
    /// There are children, and no child that was asked for is dead.
    NoneDead,
    /// There are no children, or the pid that was asked for is not a child.
    NoChild,
}

/// Reaps one dead child: the given one, or any for `None`. Does not wait.
pub fn reap(pid: Option<i32>) -> Reaped {
    // For `waitpid`, no pid means the children of the own process group only, so `wait` is used.
    let reap = || match pid {
        Some(pid) => waitpid(Pid::from_raw(pid), WaitOptions::NOHANG),
        None => wait(WaitOptions::NOHANG),
    };
    match retry_on_intr(reap) {
        Ok(Some((child, status))) => {
            Reaped::Child(child.as_raw_nonzero().get(), ExitStatus::from_raw(status.as_raw()))
        }
        Ok(None) => Reaped::NoneDead,
        Err(_) => Reaped::NoChild,
    }
}

/// How a dead child ended. The child stays a zombie (`WNOWAIT`), so its status can be read again. `None`: it
/// lives, or is not a child.
pub fn ending(pid: i32) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let child = Pid::from_raw(pid)?;
    let status = retry_on_intr(|| waitid(WaitId::Pid(child), options)).ok()??;
    // Packed as in the status of wait(2): the code in bits 8 to 15, or the signal in bits 0 to 6.
    let code = status.exit_status().map(|code| (code & 0xff) << 8);
    let signal = || status.terminating_signal().map(|signal| signal & 0x7f);
    code.or_else(signal).map(ExitStatus::from_raw)
}

/// Reaps all dead children but `kept`, the leader. May miss a child that dies during the call
/// (`proc_pid_task(5)`). Another SIGCHLD reports that one.
pub fn reap_others(kept: i32) {
    let children = proc::children(std::process::id().cast_signed());
    for child in children.into_iter().filter(|child| *child != kept) {
        reap(Some(child));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need real children")]
mod tests {
    use std::os::unix::thread::JoinHandleExt;
    use std::process::{Command, Stdio};

    use nix::sys::signal::Signal::SIGUSR1;
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};

    use super::*;
    use crate::event::Timestamp;
    use crate::process::proc;
    use crate::process::records::{Started, VERSION};

    #[test]
    fn another_process_with_the_same_pid_is_a_different_one() {
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        assert!(own.is_alive());

        let earlier = Process { start_time: own.start_time - 1, ..own };
        assert!(!earlier.is_alive());
        assert!(earlier.open().is_none());
        assert!(!earlier.signal(libc::SIGKILL));

        let mut started = Started {
            v: VERSION,
            epoch: 1,
            pid: own.pid,
            start_time: own.start_time,
            boot_id: proc::boot_id().unwrap(),
            suspended_ns: None,
            at: Timestamp::now(),
            limits: Vec::new(),
            sandbox: None,
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

    extern "C" fn nothing(_: i32) {}

    #[test]
    fn a_signal_does_not_end_the_wait_for_a_death() {
        let handler = SigHandler::Handler(nothing);
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler does nothing.
        unsafe { sigaction(SIGUSR1, &action) }.unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let handle = PidFd::open(child.id().cast_signed()).unwrap();
        let waiter = std::thread::spawn(move || handle.wait_dead(Duration::from_mins(1)));
        for _ in 0..1000 {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(waiter.as_pthread_t(), libc::SIGUSR1) };
            std::thread::yield_now();
        }
        drop(child.stdin.take());
        assert!(waiter.join().unwrap());
        child.wait().unwrap();
    }

    #[test]
    fn an_ending_is_known_before_and_until_the_child_is_reaped() {
        for (text, code, signal) in [("exit 7", Some(7), None), ("kill -9 $$", None, Some(9))] {
            let mut child = Command::new("sh").args(["-c", text]).spawn().unwrap();
            let pid = child.id().cast_signed();
            assert!(PidFd::open(pid).unwrap().wait_dead(Duration::from_mins(1)));
            for _ in 0..2 {
                let ending = ending(pid).unwrap();
                assert_eq!((ending.code(), ending.signal()), (code, signal));
            }
            assert_eq!(child.wait().unwrap(), ExitStatus::from_raw(code.map_or(9, |it| it << 8)));
            assert_eq!(ending(pid), None);
        }
        assert_eq!(ending(std::process::id().cast_signed()), None);
    }

    #[test]
    fn the_status_of_a_reaped_process_is_still_known_where_the_kernel_keeps_it() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let pidfd = PidFd::open(child.id().cast_signed()).unwrap();
        assert!(pidfd.wait_dead(Duration::from_mins(1)));
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(pidfd.signal(libc::SIGCONT).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        if let Some(status) = pidfd.exit_status() {
            assert_eq!(status.code(), Some(7));
        }
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "reaped by what is tested")]
    fn death_by_a_real_time_signal_is_reported() {
        let child = Command::new("sh").args(["-c", "kill -40 $$"]).spawn().unwrap();
        let pid = child.id().cast_signed();
        let pidfd = PidFd::open(pid).unwrap();
        assert!(pidfd.wait_dead(Duration::from_mins(1)));
        let Reaped::Child(reaped, status) = reap(Some(pid)) else { panic!("not reaped") };
        assert_eq!((reaped, status.signal()), (pid, Some(40)));
        assert_eq!(reap(Some(pid)), Reaped::NoChild);
    }
}

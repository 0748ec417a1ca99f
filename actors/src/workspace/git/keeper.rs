//! The keeper: a small process between the daemon and one git. It is a subreaper, so
//! whatever that git starts stays below it, and it ends all of them when git has
//! ended or when no one reads its output any more: the caller went away, the
//! deadline has passed, or the daemon was killed.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command as Git, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{SIGKILL, SIGTERM};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::process::{proc, set_name};

/// The first argument of a keeper; those of git follow.
const ARGUMENT: &str = "__git";
/// How long git has to remove its locks once it is asked to end.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How long the killed may take to die: one that is stuck in the kernel stays.
const BUDGET: Duration = Duration::from_secs(10);
/// The exit code of a keeper that can't run git, as a shell's.
const NO_GIT: u8 = 127;

/// Whether this program has called [`enter`], and so can be its own keeper.
static CAN_KEEP: AtomicBool = AtomicBool::new(false);

/// Runs as a keeper if the command line says so, until its git has ended. To be
/// called in `main` before anything else opens files; `None` means that this process
/// is no keeper.
#[must_use]
pub fn enter() -> Option<ExitCode> {
    CAN_KEEP.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    set_name(c"provost-git");
    Some(keep(arguments).unwrap_or_else(|error| {
        complain(&format!("git can't be run: {error}"));
        ExitCode::from(NO_GIT)
    }))
}

/// git below a keeper. In a program that can't be one (a test's), git by itself.
pub(super) fn git() -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the git runner is one of the two places that spawn"
    )]
    let command = Command::new;
    if CAN_KEEP.load(Ordering::Relaxed) {
        let mut keeper = command("/proc/self/exe");
        keeper.arg0("provost").arg(ARGUMENT);
        return keeper;
    }
    let mut git = command("git");
    git.kill_on_drop(true);
    git
}

/// On standard error, if it is still read.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}

fn keep(arguments: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    prctl::set_child_subreaper(true)?;
    prctl::set_dumpable(false)?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let deaths = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the git runner is one of the two places that spawn"
    )]
    let mut git = Git::new("git");
    git.args(arguments);
    let as_before = move || {
        // A shell that waits for its children hangs where their deaths are not told.
        mask.thread_unblock()?;
        Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
    };
    // SAFETY: between fork and exec, pthread_sigmask(3) and prctl(2) are
    // async-signal-safe and touch no memory of ours but the mask.
    unsafe { git.pre_exec(as_before) };
    let git = Pid::from_raw(git.spawn()?.id().cast_signed());

    let mut ended = None;
    while ended.is_none() && is_read(&deaths)? {
        ended = reap(git)?.of_git;
    }
    if ended.is_none() {
        // git removes its locks at SIGTERM.
        ask_to_end(git, &deaths)?;
    }
    end_the_rest(git, &deaths)?;
    Ok(match ended {
        Some(WaitStatus::Exited(_, code)) => ExitCode::from(u8::try_from(code).unwrap_or(NO_GIT)),
        Some(WaitStatus::Signaled(_, signal, _)) => {
            complain(&format!("git was ended by {signal}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::FAILURE,
    })
}

/// Waits until a child has died. `false`: no one reads the output any more.
fn is_read(deaths: &SignalFd) -> io::Result<bool> {
    let stdout = io::stdout();
    let mut fds = [
        PollFd::new(deaths.as_fd(), PollFlags::POLLIN),
        // Of a pipe without a reader, poll(2) tells unasked.
        PollFd::new(stdout.as_fd(), PollFlags::empty()),
    ];
    match poll(&mut fds, PollTimeout::NONE) {
        Err(Errno::EINTR) => return Ok(true),
        polled => polled?,
    };
    let [_, out] = fds;
    let is_closed =
        out.revents().is_some_and(|told| told.intersects(PollFlags::POLLERR | PollFlags::POLLHUP));
    while let Ok(Some(_)) = deaths.read_signal() {}
    Ok(!is_closed)
}

/// The result of reaping.
struct Reaped {
    of_git: Option<WaitStatus>,
    /// No child is left.
    is_last: bool,
}

fn reap(git: Pid) -> io::Result<Reaped> {
    let mut of_git = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return Ok(Reaped { of_git, is_last: false }),
            Ok(status) if status.pid() == Some(git) => of_git = Some(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => return Ok(Reaped { of_git, is_last: true }),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks git, and the gits that it has started: a `git worktree add` makes its branch
/// with another one, which becomes a child of this process once the first is dead.
fn ask_to_end(git: Pid, deaths: &SignalFd) -> io::Result<()> {
    let until = Instant::now() + GRACE;
    while Instant::now() < until && !reap(git)?.is_last {
        signal_children(SIGTERM);
        pause(deaths);
    }
    Ok(())
}

/// Kills all children, and those of the killed, whom this process gets as a subreaper.
fn end_the_rest(git: Pid, deaths: &SignalFd) -> io::Result<()> {
    let until = Instant::now() + BUDGET;
    while !reap(git)?.is_last && Instant::now() < until {
        signal_children(SIGKILL);
        pause(deaths);
    }
    Ok(())
}

/// Only this process reaps them: their pids stay theirs.
fn signal_children(signal: i32) {
    let signal = Signal::try_from(signal).ok();
    for child in proc::children(std::process::id().cast_signed()) {
        let _ = kill(Pid::from_raw(child), signal);
    }
}

/// Until a child has died, but not for long.
fn pause(deaths: &SignalFd) {
    let mut fds = [PollFd::new(deaths.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut fds, PollTimeout::from(20_u8));
    while let Ok(Some(_)) = deaths.read_signal() {}
}

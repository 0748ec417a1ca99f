//! The keeper: a small process between the daemon and one git. It is a subreaper, so whatever that git
//! starts stays below it. It ends all of them when git has ended, or when its output has no reader any
//! more: the caller dropped the call, the deadline passed, or the daemon was killed.
//!
//! ```text
//!  git runs ─git has ended──────────────────────────▶ SIGKILL to what is left ─▶ exit with git's code
//!     └──────no reader─▶ SIGTERM to all children (5 s) ─▶ SIGKILL (10 s) ─▶ exit with failure
//! ```

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command as Git, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::process::identity::{Reaped, reap};
use crate::process::{proc, set_name};

/// The first argument of a keeper; the arguments of git follow.
const ARGUMENT: &str = "__git";
/// How long git has to remove its locks after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How long killed processes have to be reaped: one that waits in the kernel, for a dead network file
/// system, say, may never end.
const BUDGET: Duration = Duration::from_secs(10);
/// The exit code of a keeper that can't run git, as a shell has it for a command that is not found.
const NO_GIT: u8 = 127;

/// Whether this program has called [`enter`]: only then can it be started as its own keeper.
static CAN_KEEP: AtomicBool = AtomicBool::new(false);

/// Runs as a keeper, until its git has ended, if the command line says so. `None`: this process is no
/// keeper. Call it in `main` before anything else opens files.
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

/// A command that runs git below a keeper. In a program that can't be one (a test), it runs git directly.
pub(super) fn git() -> Command {
    if CAN_KEEP.load(Ordering::Relaxed) {
        let mut keeper = Command::from(command("/proc/self/exe"));
        keeper.arg0("provost").arg(ARGUMENT);
        return keeper;
    }
    let mut git = Command::from(command("git"));
    git.kill_on_drop(true);
    git
}

/// The one place of this module that makes commands for new processes.
#[expect(clippy::disallowed_methods, reason = "one of the two places that spawn")]
fn command(program: &str) -> Git {
    Git::new(program)
}

/// Writes to stderr, where the caller looks for git's own messages. A closed stderr is no error.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Runs git, and waits for its end or for the end of the reader.
fn keep(arguments: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    prctl::set_child_subreaper(true)?;
    prctl::set_dumpable(false)?;
    let mask = SigSet::from(Signal::SIGCHLD);
    mask.thread_block()?;
    let deaths = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut git = command("git");
    git.args(arguments);
    let as_before = move || {
        // The mask is inherited through exec: a shell that waits for SIGCHLD would hang.
        mask.thread_unblock()?;
        Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
    };
    // SAFETY: between fork and exec, pthread_sigmask(3) and prctl(2) are
    // async-signal-safe and touch no memory of ours but the mask.
    unsafe { git.pre_exec(as_before) };
    let git = git.spawn()?.id().cast_signed();

    let mut ended = None;
    while ended.is_none() && is_read(&deaths)? {
        reap_all(git, &mut ended);
    }
    if ended.is_none() {
        // git removes its locks at SIGTERM. Some commands run another git, which becomes a child of this
        // process once the first one is dead, and then gets the signal, too.
        end_children(Signal::SIGTERM, GRACE, &deaths);
    }
    end_children(Signal::SIGKILL, BUDGET, &deaths);
    let code = ended.and_then(|status| status.code());
    if let Some(signal) = ended.and_then(|status| status.signal()) {
        let name = Signal::try_from(signal).map_or("a signal", Signal::as_str);
        complain(&format!("git was ended by {name}"));
    }
    Ok(code.map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(NO_GIT))))
}

/// Waits until a child has died or the reader has gone. `false`: the output has no reader any more.
fn is_read(deaths: &SignalFd) -> io::Result<bool> {
    let stdout = io::stdout();
    let mut fds = [
        PollFd::new(deaths.as_fd(), PollFlags::POLLIN),
        // poll(2) always reports a pipe without a reader.
        PollFd::new(stdout.as_fd(), PollFlags::empty()),
    ];
    match poll(&mut fds, PollTimeout::NONE) {
        Err(Errno::EINTR) => return Ok(true),
        polled => polled?,
    };
    let [_, out] = fds;
    while let Ok(Some(_)) = deaths.read_signal() {}
    Ok(!out.revents().is_some_and(|it| it.intersects(PollFlags::POLLERR | PollFlags::POLLHUP)))
}

/// Reaps all dead children, and notes the end of git among them. Returns whether any child is left.
fn reap_all(git: i32, ended: &mut Option<ExitStatus>) -> bool {
    loop {
        match reap(None) {
            Reaped::Child(child, status) if child == git => *ended = Some(status),
            Reaped::Child(..) => {}
            Reaped::NoneDead => return true,
            Reaped::NoChild => return false,
        }
    }
}

/// Signals all children, also adopted ones, until none is left or the time is up.
fn end_children(signal: Signal, budget: Duration, deaths: &SignalFd) {
    let until = Instant::now() + budget;
    while reap_all(0, &mut None) && Instant::now() < until {
        // Only this process reaps them, so no pid can have been given to another process.
        for child in proc::children(std::process::id().cast_signed()) {
            let _ = kill(Pid::from_raw(child), signal);
        }
        let mut fds = [PollFd::new(deaths.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(20_u8));
        while let Ok(Some(_)) = deaths.read_signal() {}
    }
}

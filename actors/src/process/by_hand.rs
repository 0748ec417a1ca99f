//! A person's own run of a program in an attempt's box, in their terminal (`provost resume`). It has no shim,
//! and its output is in no log.
//!
//! ```text
//!  command ── ByHand, as JSON in a memfd ──▶ "__by-hand FD": enter the box, exec the program
//!          ── the locked file ─────────────▶ inherited: locked until the program and its children end
//! ```
//!
//! The memfd is not on disk: the environment may hold secrets.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::records::AGAIN;
use crate::sandbox::{Ready, Sandbox};

/// The first argument, by which [`enter`] recognises such a process. The number of the memfd follows.
const ARGUMENT: &str = "__by-hand";
/// The exit code if the program can't be run, or its box can't be entered: the same as a shell's.
const CAN_NOT_RUN: u8 = 126;
/// How long a locked file may stay so, until another run counts as its holder.
const WAIT: Duration = Duration::from_secs(1);

/// What to run, and its box. `attempt/resume.rs` makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHand {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// All of its environment.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    /// `None`: it has no box.
    pub sandbox: Option<Sandbox>,
    /// A file whose flock(2) the run holds: no turn of the attempt begins meanwhile.
    pub lock: PathBuf,
}

impl ByHand {
    /// Takes the lock, and returns the command that runs the program in this terminal. The program and its
    /// children inherit the lock. `None`: another run has the lock.
    ///
    /// # Errors
    /// The file of the lock can't be opened, or the memfd can't be made.
    pub fn command(&self, program: &Path) -> io::Result<Option<Prepared>> {
        let mut options = File::options();
        let lock = options.read(true).write(true).create(true).truncate(false).open(&self.lock)?;
        if !locks_within(WAIT, &lock) {
            return Ok(None);
        }
        let mut handed = File::from(memfd_create(c"provost-by-hand", MFdFlags::MFD_CLOEXEC)?);
        handed.write_all(&serde_json::to_vec(self)?)?;
        handed.rewind()?;
        // Without FD_CLOEXEC the child inherits both.
        for kept in [&handed, &lock] {
            fcntl(kept, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        #[expect(clippy::disallowed_methods, reason = "a person's own program, in their terminal")]
        let mut command = Command::new(program);
        command.arg(ARGUMENT).arg(handed.as_raw_fd().to_string());
        Ok(Some(Prepared { command, kept: [handed.into(), lock.into()] }))
    }
}

/// Locks the file, and tries for `wait` at most: a daemon that looks whether it is locked holds it for a
/// moment.
#[expect(clippy::disallowed_methods, reason = "it runs in a person's command")]
fn locks_within(wait: Duration, lock: &File) -> bool {
    let began = Instant::now();
    while lock.try_lock().is_err() {
        if began.elapsed() > wait {
            return false;
        }
        std::thread::sleep(AGAIN);
    }
    true
}

/// A command, and the two files that it inherits. Keep them open until the command is started.
pub struct Prepared {
    pub command: Command,
    /// The memfd and the locked file.
    pub kept: [OwnedFd; 2],
}

/// Becomes the program that was handed over, if the command line says so. Returns only if the command line
/// says something else (`None`), or if the program can't be run (exit code 126, after a message).
pub fn enter() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    if args.next()? != ARGUMENT {
        return None;
    }
    let error = become_it(&args.next()?);
    eprintln!("error: {error}");
    Some(ExitCode::from(CAN_NOT_RUN))
}

/// Enters the box and executes the program. Returns only if that fails. The error is a sentence without its
/// full stop.
fn become_it(handed: &str) -> String {
    let read = || -> io::Result<ByHand> {
        let number: i32 = handed.parse().map_err(io::Error::other)?;
        let bytes = fs::read(format!("/proc/self/fd/{number}"))?;
        nix::unistd::close(number)?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    let ByHand { program, args, env, cwd, sandbox, .. } = match read() {
        Ok(read) => read,
        Err(error) => return format!("what is to be run can't be read: {error}"),
    };
    if let Err(error) = std::env::set_current_dir(&cwd) {
        return format!("{}: {error}", cwd.display());
    }
    let entered = sandbox.as_ref().map(|sandbox| {
        let ready = Ready::make(sandbox)?;
        ready.enter().map_err(|error| format!("the sandbox can't be entered: {error}"))
    });
    if let Some(Err(error)) = entered {
        return error;
    }
    #[expect(clippy::disallowed_methods, reason = "this process becomes the person's own program")]
    let mut command = Command::new(&program);
    let error = command.args(args).env_clear().envs(env).env("PWD", &cwd).exec();
    format!("{} can't be run: {error}", program.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_the_lock_does_not_refuse_a_run_and_another_run_does() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (look, run, other) = (open(), open(), open());
        look.lock_shared().unwrap();
        let waiter = std::thread::spawn(move || (locks_within(Duration::from_mins(1), &run), run));
        drop(look);
        let (is_locked, _run) = waiter.join().unwrap();
        assert!(is_locked && !locks_within(Duration::ZERO, &other));
    }
}

//! Fixes findings while no daemon runs: the home's lock is held meanwhile, so none starts.
//! Each fix proves again that it is safe, and does nothing where the proof fails.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

use nix::sys::signal::Signal;
use provost_actors::attempt::locks;
use provost_actors::process::identity::Process;

use super::check::{Check, Cure, Status};
use super::daemon::is_stale;
use super::processes::{ancestors, attempt_of};
use crate::daemon::{HomeLock, LockError};
use crate::home::Home;

/// Fixes what can be fixed, and adds to each finding what was done.
pub fn all(home: &Home, mut checks: Vec<Check>) -> Vec<Check> {
    if checks.iter().all(|check| check.cure.is_none()) {
        return checks;
    }
    let lock = HomeLock::take(home.lock());
    for check in &mut checks {
        let Some(cure) = check.cure.take() else { continue };
        let done = match &lock {
            Ok(_) => apply(home, &cure),
            Err(LockError::Held { .. }) => {
                check.hint = Some("Run `provost shutdown` first, then this again.".to_owned());
                continue;
            }
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        match done {
            Ok(done) => {
                check.message = format!("{}: {done}", check.message);
                (check.status, check.fixed) = (Status::Ok, true);
                (check.hint, check.fixable) = (None, false);
            }
            Err(why) => check.hint = Some(format!("It was left alone: {why}.")),
        }
    }
    checks
}

fn apply(home: &Home, cure: &Cure) -> io::Result<String> {
    let refused = |why: &str| Err(io::Error::other(why));
    match cure {
        // No daemon listens, since the lock is ours; any other listener keeps the socket.
        Cure::RemoveSocket if !is_stale(home.socket()) => refused("a process listens on it"),
        Cure::RemoveSocket => fs::remove_file(home.socket()).map(|()| "removed".to_owned()),
        Cure::Close { path, mode } => {
            let found = fs::symlink_metadata(path)?;
            if found.is_symlink() || found.uid() != nix::unistd::geteuid().as_raw() {
                return refused("it is not ours");
            }
            fs::set_permissions(path, Permissions::from_mode(*mode))?;
            Ok(format!("closed (mode {mode:o})"))
        }
        // The lock is in the repository, where nothing is ever deleted.
        Cure::SetLockAside { lock, worktree }
            if locks::of(worktree).contains(lock) && locks::set_aside(lock, worktree)? =>
        {
            Ok("renamed".to_owned())
        }
        Cure::SetLockAside { .. } => refused("a process may hold it"),
        Cure::Kill { attempt, processes } => Ok(kill(home, attempt, processes)),
        Cure::Trash(path) => {
            let trash = home.trash();
            DirBuilder::new().recursive(true).mode(0o700).create(&trash)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            fs::rename(path, trash.join(format!("{}-{name}", uuid::Uuid::now_v7())))?;
            Ok("moved to the trash".to_owned())
        }
    }
}

/// Each process is proved again by its marker and, through a handle, by its start time,
/// so that a process that got its pid since then is not signalled.
fn kill(home: &Home, attempt: &str, processes: &[Process]) -> String {
    let own = ancestors();
    let is_ours = |process: &&Process| {
        !own.contains(&process.pid)
            && attempt_of(home, process.pid).as_deref() == Some(attempt)
            && process.is_alive()
    };
    let kill = |process: &&Process| process.signal(Signal::SIGKILL as i32);
    format!("{} killed", processes.iter().filter(is_ours).filter(kill).count())
}

//! Examines a home, with or without a running daemon, and fixes what is safe to fix. An examination
//! changes nothing and starts no daemon. Each file of this folder is one group of checks with a deadline:
//!
//! ```text
//!  examine --> findings --(--fix, no daemon runs)--> take the home's lock --> each fix verifies its finding
//!                                                                            again, and then acts
//! ```

mod attempts;
mod check;
mod daemon;
mod database;
mod executors;
mod home;
mod kept;
mod machine;
mod processes;

use std::io;
use std::time::Duration;

pub use check::{Check, CheckStatus};

use crate::daemon::{HomeLock, LockError};
use crate::home::Home;

/// How long a group of checks may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Examines the home; with `fixes`, fixes what can be fixed. If the database can't be read, the checks
/// that need its rows are left out.
pub async fn examine(home: &Home, fixes: bool) -> Vec<Check> {
    let (is_held, daemon_path, of_daemon) = daemon::find(home).await;
    let mut checks = blocking("home", home, move |home| home::checks(home, is_held)).await;
    checks.extend(of_daemon);
    let mut attempts = None;
    let database = async {
        let (checks, found) = database::checks(home, is_held).await;
        attempts = found;
        checks
    };
    checks.extend(within("database", database).await);
    if let Some(attempts) = attempts {
        let known = attempts.clone();
        let on_disk = move |home: &Home| attempts::on_disk(home, &known);
        checks.extend(blocking("attempts", home, on_disk).await);
        checks.extend(within("worktrees", attempts::in_git(home, &attempts)).await);
        checks.extend(within("kept work", kept::checks(&attempts)).await);
        let of_processes = move |home: &Home| processes::checks(home, &attempts);
        checks.extend(blocking("processes", home, of_processes).await);
    }
    checks.extend(within("executors", executors::checks(home, daemon_path.as_deref())).await);
    checks.extend(within("machine", machine::checks(home)).await);
    if fixes {
        fix(home, &mut checks);
    }
    checks
}

/// Fixes what can be fixed, and adds to each finding what was done. The home's lock is held until the
/// end, so no daemon starts meanwhile. If a daemon holds the lock, nothing is fixed, and the hints say
/// so.
fn fix(home: &Home, checks: &mut [Check]) {
    if checks.iter().all(|check| check.cure.is_none()) {
        return;
    }
    let mut lock = HomeLock::take(&home.lock);
    if !matches!(lock, Ok(_) | Err(LockError::Held { .. })) {
        // The lock's folder may be closed to its owner: the modes are repaired, then the lock is tried
        // again.
        home.put_right();
        lock = HomeLock::take(&home.lock);
    }
    for check in checks {
        let Some(cure) = check.cure.take() else { continue };
        let done = match &lock {
            Ok(_) => cure(home),
            Err(LockError::Held { .. }) => {
                check.hint = Some("Run `provost shutdown` first, then this again.".to_owned());
                continue;
            }
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        match done {
            Ok(done) => {
                check.message = format!("{}: {done}", check.message);
                (check.status, check.fixed) = (CheckStatus::Ok, true);
                (check.hint, check.fixable) = (None, false);
            }
            Err(why) => check.hint = Some(format!("It was left alone: {why}.")),
        }
    }
}

/// The findings of a group, or one that the group took too long.
async fn within(name: &str, group: impl Future<Output = Vec<Check>>) -> Vec<Check> {
    tokio::time::timeout(DEADLINE, group).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", DEADLINE.as_secs());
        let hint = "See whether the disk or a network file system does not answer.";
        vec![Check::fail(name, message, hint)]
    })
}

/// Runs a blocking group on a thread of its own. After the deadline the thread continues, and its findings
/// are lost.
async fn blocking(
    name: &str,
    home: &Home,
    group: impl FnOnce(&Home) -> Vec<Check> + Send + 'static,
) -> Vec<Check> {
    let home = home.clone();
    let group = async {
        let examined = tokio::task::spawn_blocking(move || group(&home)).await;
        examined.unwrap_or_else(|error| {
            vec![Check::warn(name, format!("it can't be examined: {error}"), "")]
        })
    };
    within(name, group).await
}

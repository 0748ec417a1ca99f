//! Examines a home, with or without a running daemon, and fixes what is proved safe to fix.
//! Examining changes nothing and starts no daemon. Each file below is one group of checks,
//! with a deadline; only `fix` acts, and proves each finding again before it does.

mod attempts;
mod check;
mod daemon;
mod database;
mod executors;
mod fix;
mod machine;
mod place;
mod processes;

use std::time::Duration;

pub use check::{Check, Status};

use crate::home::Home;

/// How long a group of checks may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Examines the home; with `fixes`, fixes what can be fixed.
pub async fn examine(home: &Home, fixes: bool) -> Vec<Check> {
    let found = daemon::find(home).await;
    let is_held = found.is_held;
    let mut checks = blocking("home", home, move |home| place::checks(home, is_held)).await;
    checks.extend(found.checks);
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
        let of_processes = move |home: &Home| processes::checks(home, &attempts);
        checks.extend(blocking("processes", home, of_processes).await);
    }
    checks.extend(within("executors", executors::checks(home, found.path.as_deref())).await);
    checks.extend(within("machine", machine::checks(home)).await);
    if fixes { fix::all(home, checks) } else { checks }
}

/// The findings of a group, or that it took too long.
async fn within(name: &str, group: impl Future<Output = Vec<Check>>) -> Vec<Check> {
    tokio::time::timeout(DEADLINE, group).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", DEADLINE.as_secs());
        let hint = "See whether the disk or a network file system does not answer.";
        vec![Check::fail(name, message, hint)]
    })
}

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

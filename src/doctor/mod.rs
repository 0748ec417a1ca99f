//! Looks a home over, with or without a daemon, and mends what is proven safe to
//! mend. Looking changes nothing and starts no daemon; everything that is asked
//! has a deadline. Each file below is one group of checks; `mend` is the only one
//! that acts, and proves anew before it does.

mod attempts;
mod check;
mod daemon;
mod database;
mod executors;
mod machine;
mod mend;
mod place;
mod processes;

use std::time::Duration;

pub use check::{Check, Status};

use crate::home::Home;

/// How long a group of checks may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Looks the home over; with `mends`, mends what can be.
pub async fn examine(home: &Home, mends: bool) -> Vec<Check> {
    let found = daemon::find(home).await;
    let mut checks = blocking("home", {
        let (home, is_held) = (home.clone(), found.is_held());
        move || place::checks(&home, is_held)
    })
    .await;
    checks.extend(daemon::checks(home, &found));
    let looked = within("database", database::checks(home, found.is_held())).await;
    let (database, attempts) = looked.unwrap_or_else(|late| (vec![late], None));
    checks.extend(database);
    if let Some(attempts) = attempts {
        let of_disk = blocking("attempts", {
            let (home, attempts) = (home.clone(), attempts.clone());
            move || attempts::on_disk(&home, &attempts)
        });
        checks.extend(of_disk.await);
        let in_git = within("worktrees", attempts::in_git(home, &attempts)).await;
        checks.extend(in_git.unwrap_or_else(|late| vec![late]));
        let home = home.clone();
        checks.extend(blocking("processes", move || processes::checks(&home, &attempts)).await);
    }
    let executors = within("executors", executors::checks(home, found.path())).await;
    checks.extend(executors.unwrap_or_else(|late| vec![late]));
    let machine = within("machine", machine::checks(home)).await;
    checks.extend(machine.unwrap_or_else(|late| vec![late]));
    if mends {
        checks = mend::all(home, checks);
    }
    checks
}

/// What a group found; `Err`: it took too long.
async fn within<T>(name: &str, group: impl Future<Output = T>) -> Result<T, Check> {
    tokio::time::timeout(DEADLINE, group).await.map_err(|_| late(name))
}

async fn blocking(name: &str, group: impl FnOnce() -> Vec<Check> + Send + 'static) -> Vec<Check> {
    match tokio::time::timeout(DEADLINE, tokio::task::spawn_blocking(group)).await {
        Ok(Ok(checks)) => checks,
        Ok(Err(error)) => vec![Check::warn(name, format!("it can't be looked at: {error}"))],
        Err(_) => vec![late(name)],
    }
}

fn late(name: &str) -> Check {
    let message = format!("no answer within {} s", DEADLINE.as_secs());
    Check::fail(name, message).hint("See whether the disk or a network file system hangs.")
}

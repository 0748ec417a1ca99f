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
    let (database, attempts) = within("database", database::checks(home)).await;
    checks.extend(database);
    if let Some(attempts) = attempts {
        let of_disk = blocking("attempts", {
            let (home, attempts) = (home.clone(), attempts.clone());
            move || attempts::on_disk(&home, &attempts)
        });
        checks.extend(of_disk.await);
        checks.extend(within("worktrees", attempts::in_git(home, &attempts)).await.0);
        let home = home.clone();
        checks.extend(blocking("processes", move || processes::checks(&home, &attempts)).await);
    }
    checks.extend(within("executors", executors::checks(home)).await.0);
    checks.extend(within("machine", machine::checks(home)).await.0);
    if mends {
        checks = mend::all(home, checks);
    }
    checks
}

/// What a group found, or that it took too long. It may find more than checks.
trait Found {
    fn too_late(check: Check) -> Self;
}

impl<T: Default> Found for (Vec<Check>, T) {
    fn too_late(check: Check) -> Self {
        (vec![check], T::default())
    }
}

async fn within<T: Found>(name: &str, group: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, group).await {
        Ok(found) => found,
        Err(_) => T::too_late(late(name)),
    }
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

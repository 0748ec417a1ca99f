//! The daemon's periodic work: it prunes old answers, rotates its log, reaps orphans, and keeps its home
//! private.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::process::Shims;

use crate::domain::Domain;
use crate::home::Home;
use crate::store::Store;

/// How often stored answers are pruned.
const PRUNE_EVERY: Duration = Duration::from_hours(1);
/// The size of the daemon's own log, in bytes, at which a new one begins. The home keeps two logs.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;
/// How often the daemon's own log is measured.
const MEASURE_LOG_EVERY: Duration = Duration::from_secs(5);
/// How often orphans of killed shims are reaped.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// How often the modes of the home are repaired: an agent in a sandbox can change them.
const CLOSE_EVERY: Duration = Duration::from_secs(5);

/// Runs the periodic work until the task is aborted. Each part waits for the one that runs, so none of
/// them may take long.
pub async fn run(store: Store, shims: Shims, home: Home, domain: Arc<Domain>) {
    let log = home.log_file.clone();
    let mut close = tokio::time::interval(CLOSE_EVERY);
    let mut measure = tokio::time::interval(MEASURE_LOG_EVERY);
    let mut prune = tokio::time::interval(PRUNE_EVERY);
    let mut strays = tokio::time::interval(REAP_EVERY);
    loop {
        tokio::select! {
            _ = measure.tick() => {
                if let Err(error) = rotate(&log, LOG_LIMIT) {
                    tracing::warn!(%error, "the daemon's log can't be rotated");
                }
            }
            _ = close.tick() => keep_private(&home, &domain).await,
            _ = prune.tick() => match store.prune().await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "old answers pruned"),
                Err(error) => tracing::warn!(%error, "old answers can't be pruned"),
            },
            _ = strays.tick() => {
                let shims = shims.clone();
                let reaped = tokio::task::spawn_blocking(move || shims.reap_strays()).await;
                if let Err(error) = reaped {
                    tracing::error!(%error, "reaping orphans panicked");
                }
            }
        }
    }
}

/// Repairs the modes of the home, which an agent in a sandbox can change, and renews a token that others
/// could read.
async fn keep_private(home: &Home, domain: &Domain) {
    let home = home.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || home.put_right()).await {
        tracing::error!(%error, "the modes of the home can't be put right");
    }
    if domain.is_token_exposed() {
        match domain.keep_owner().await {
            Ok(()) => tracing::warn!("others could read the owner's token: it was renewed"),
            Err(refusal) => tracing::error!(%refusal, "the owner's token can't be renewed"),
        }
    }
}

/// Renames a log that has reached `limit` bytes to `daemon.log.1`, which replaces an earlier one, and
/// begins a new log on stderr. Does nothing if stderr is another file: then the parent process owns it.
fn rotate(log: &Path, limit: u64) -> io::Result<()> {
    let ours = File::from(io::stderr().as_fd().try_clone_to_owned()?).metadata()?;
    let Ok(named) = fs::metadata(log) else { return Ok(()) };
    let is_ours = (ours.dev(), ours.ino()) == (named.dev(), named.ino());
    if !is_ours || named.len() < limit {
        return Ok(());
    }
    let mut earlier = log.as_os_str().to_owned();
    earlier.push(".1");
    fs::rename(log, &earlier)?;
    let begun = File::options().append(true).create(true).mode(0o600).open(log)?;
    // After this, every writer of stderr writes to the new file, also those that print directly.
    nix::unistd::dup2_stderr(begun)?;
    Ok(())
}

//! What a daemon does now and then: old answers are pruned, its log is rotated, orphans are reaped.

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
/// Bytes of the daemon's own log at which a new one begins. The home keeps two logs.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;
/// How often the daemon's own log is measured.
const MEASURE_LOG_EVERY: Duration = Duration::from_secs(5);
/// How often orphans of killed shims are reaped.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// How often the modes of the home are put right.
const CLOSE_EVERY: Duration = Duration::from_secs(5);

/// Periodic maintenance.
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

/// Puts right what an agent in a box may have done to the modes of the home.
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

/// Renames a log of `limit` bytes to `daemon.log.1`, in place of an earlier one, and begins a new
/// log. Does nothing if standard error is another file, which belongs to the parent process.
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
    nix::unistd::dup2_stderr(begun)?;
    Ok(())
}

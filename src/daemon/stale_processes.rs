//! Ends processes of this home that do not belong to its host (any more). This happens before the host is
//! registered, because another host may have taken over their attempts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use provost_actors::host::{Host, Registration};
use provost_actors::ids::AttemptId;
use provost_actors::process::Shims;
use provost_actors::process::lease::Lease;
use provost_actors::retry::until_done;

use super::DaemonError;
use crate::home::Home;
use crate::store::Store;

/// Kills the stale processes, and waits until nothing of them is alive. If the host's row is of another
/// home, is missing, or says that the host was given up, all processes are stale; else those of attempts
/// that the host does not have.
///
/// # Errors
/// The processes belong to this home under another host name: the person has to decide.
pub async fn end(
    home: &Home,
    store: &Store,
    shims: &Shims,
    lease: &Lease,
    hosts: &[Host],
    registration: &Registration,
) -> Result<(), DaemonError> {
    let alive = shims.alive_below(&[home.attempts(), home.checks()]).await?;
    if alive.is_empty() {
        return Ok(());
    }
    let is_this = |it: &&Host| it.host_id == registration.host_id;
    let is_home = |it: &&Host| it.secret == registration.secret && it.fenced_at.is_none();
    if let Some(other) = hosts.iter().filter(is_home).find(|it| !is_this(it)) {
        let why = format!("executors of host {} run in this home", other.host_id);
        let way = format!(
            "Start the daemon as host {} until they have ended, and rename the host then.",
            other.host_id
        );
        return Err(DaemonError::Host(why, way));
    }
    let stale = if hosts.iter().filter(is_this).any(|it| is_home(&it)) {
        not_own(&home.attempts(), store, alive).await?
    } else {
        lease.fence()?;
        alive
    };
    for dir in stale {
        tracing::warn!(folder = %dir.display(), "what runs here is not this host's, and is ended");
        let what = format!("ending {}, which another host may have taken over", dir.display());
        until_done(what, || shims.end_stale(&dir)).await;
    }
    Ok(())
}

/// The process folders in `alive` whose attempts this host does not have. Check runs are left out.
async fn not_own(
    attempts: &Path,
    store: &Store,
    mut alive: BTreeSet<PathBuf>,
) -> Result<BTreeSet<PathBuf>, DaemonError> {
    let attempt = |dir: &PathBuf| -> Option<AttemptId> {
        dir.strip_prefix(attempts).ok()?.iter().next()?.to_str()?.parse().ok()
    };
    let ids: Vec<AttemptId> = alive.iter().filter_map(attempt).collect();
    let refused = |refusal: provost_actors::refusal::Refusal| {
        DaemonError::Host(refusal.message, refusal.hint)
    };
    let own = store.own_of(&ids).await.map_err(refused)?;
    alive.retain(|dir| attempt(dir).is_some_and(|attempt| !own.contains(&attempt)));
    Ok(alive)
}

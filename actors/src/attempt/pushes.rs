//! Copies of snapshots on a remote. One task of the daemon has the configured remote keep the newest
//! snapshot of each of this host's attempts, and has remotes remove what is not to be kept any more. Rows
//! say what is to be done, so what fails or is cut off is done later.
//!
//! ```text
//!  Due ─ push ─▶ There ─ not to be kept ─▶ Unwanted ─ removed ─▶ Removed
//!   └─ fails ─▶ Failed ─ each hour, and at the start ─▶ as Due
//! ```

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::provision;
use super::say::say;
use crate::failpoint;
use crate::journal::{Attempt, AttemptRepo, DuePush, Pushed};
use crate::refusal::Refusal;
use crate::text::cut;
use crate::workspace::bundle;
use crate::workspace::commit::CommitError;
use crate::workspace::git;
use crate::workspace::push::kept::Kept;
use crate::workspace::push::{PushError, check_url, shown};
use crate::world::World;

/// The pause before what has failed is tried again.
const AGAIN: Duration = Duration::from_hours(1);
/// How many characters of a failure's text are shown.
const REASON_MAX: usize = 500;

/// Why a push to a remote, or a removal there, failed.
#[derive(Debug, thiserror::Error)]
enum PushFailed {
    /// Another snapshot may still go to this remote.
    #[error("{0}")]
    This(String),
    /// The remote can't be reached: nothing else is tried there in this round.
    #[error("{0}")]
    Away(String),
}

/// The task. Does what is due when the daemon starts, each hour, and when [`wake`] is called; what has failed
/// before only in the first two cases. Never ends.
pub async fn keep_pushed(world: Arc<World>) {
    let mut again = interval(AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let with_failed = tokio::select! {
            _ = again.tick() => true,
            () = world.to_push.notified() => false,
        };
        if let Err(refusal) = round(&world, with_failed).await {
            tracing::warn!(%refusal, "what remotes are to keep can't be read or written down");
        }
    }
}

/// Has the task look now: there may be something to push or to remove.
pub fn wake(world: &World) {
    world.to_push.notify_one();
}

/// Does what is due, one snapshot after the other. Attempts of other hosts are theirs to push.
async fn round(world: &World, with_failed: bool) -> Result<(), Refusal> {
    let remote = world.settings.worktrees.snapshot_remote.as_deref();
    let mut away = HashSet::new();
    for due in world.journal.due_pushes(remote, with_failed).await? {
        // Another push to this remote would wait as long, and fail in the same way.
        if away.contains(&due.url) {
            continue;
        }
        let Some(attempt) = world.journal.attempt(due.attempt_id).await? else { continue };
        if attempt.host != world.host.id {
            continue;
        }
        // The row names the remote before the push: if the daemon dies in between, the remote may have
        // the snapshot, and is asked to remove it once it is not to be kept.
        if due.pushed == Pushed::Due && !world.journal.record_push(&due, Pushed::Due).await? {
            continue;
        }
        match carry_out(world, &attempt, &due).await {
            Ok(pushed) => {
                failpoint::hit("snapshot", "pushed");
                // If this write fails, the push is done again, which changes nothing at the remote. If
                // the row has changed meanwhile, what it says now is done next.
                if !world.journal.record_push(&due, pushed).await? {
                    wake(world);
                }
            }
            Err(error) => {
                failed(world, &attempt, &due, &error).await?;
                if matches!(error, PushFailed::Away(_)) {
                    away.insert(due.url);
                }
            }
        }
    }
    Ok(())
}

/// Pushes or removes one snapshot. Returns what the remote has then.
async fn carry_out(world: &World, attempt: &Attempt, due: &DuePush) -> Result<Pushed, PushFailed> {
    let DuePush { attempt_id, turn, commit_id, url, .. } = due;
    check_url(url).map_err(PushFailed::This)?;
    let repo = attempt.repos.iter().find(|repo| repo.name == due.repo);
    let repo = repo.ok_or_else(|| PushFailed::This("its repository is gone".to_owned()))?;
    let path = Path::new(&repo.path);
    git::common_dir(path).await.map_err(|error| PushFailed::This(error.to_string()))?;
    let kept =
        Kept { repo: path, scratch: &world.settings.folders.scratch, url, attempt: *attempt_id };
    let refused = |error: PushError| {
        let reason = error.to_string().replace(url, &shown(url));
        let reason = cut(reason.split_whitespace().collect::<Vec<_>>().join(" "), REASON_MAX);
        match error {
            PushError::Rejected(_) => PushFailed::This(reason),
            PushError::Git(_) => PushFailed::Away(reason),
        }
    };
    if due.pushed == Pushed::Unwanted {
        kept.remove(None).await.map_err(refused)?;
        return Ok(Pushed::Removed);
    }
    may_leave(world, attempt, repo, commit_id).await.map_err(PushFailed::This)?;
    kept.put(*turn, commit_id).await.map_err(refused)?;
    // A snapshot that stays goes with the next turn's.
    if let Err(error) = kept.remove(Some(*turn)).await.map_err(refused) {
        tracing::warn!(attempt = %attempt_id, remote = due.remote, %error,
            "a remote still has the snapshots of earlier turns");
    }
    Ok(Pushed::There)
}

/// Whether a snapshot is here, and has nothing that must not leave the host: credentials that were copied
/// into the worktree. `Err` is part of a sentence.
async fn may_leave(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    commit: &str,
) -> Result<(), String> {
    if !bundle::has(Path::new(&repo.path), commit).await {
        return Err(format!("{} does not have the commit {commit}", repo.path));
    }
    let source = provision::source(world, attempt, repo).await.map_err(|it| it.to_string())?;
    match source.credential_in(commit, &repo.base_commit).await {
        Ok(None) => Ok(()),
        Ok(Some(commit)) => Err(CommitError::Credentials(commit).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Logs a failure. The attempt's log says it once for each snapshot.
async fn failed(
    world: &World,
    attempt: &Attempt,
    due: &DuePush,
    error: &PushFailed,
) -> Result<(), Refusal> {
    let DuePush { turn, repo, remote, pushed, .. } = due;
    if *pushed == Pushed::Unwanted {
        tracing::warn!(attempt = %attempt.attempt_id, remote, %error,
            "a remote still has a snapshot that is not kept any more");
        return Ok(());
    }
    tracing::warn!(attempt = %attempt.attempt_id, turn, remote, %error, "a snapshot is not pushed");
    if *pushed != Pushed::Due || !world.journal.record_push(due, Pushed::Failed).await? {
        return Ok(());
    }
    let text = format!(
        "What turn {turn} left in {repo} is not on the remote {remote} yet: {error}. It is pushed again \
         each hour and when the daemon starts, unless the next turn's is pushed before."
    );
    say(world, attempt, text).await;
    Ok(())
}

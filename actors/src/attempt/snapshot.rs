//! The snapshot of an attempt's last turn: made by a task once the turn has settled, and if it is
//! still missing then, before the process of the next turn is started. It holds the lock of the
//! worktrees, for which only the preparation of the next turn waits: neither a settlement nor a
//! stop does. That a snapshot is due is written with the turn's outcome, so an attempt whose
//! daemon was killed before gets it from the next daemon.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};

use super::{bundles, prepare, provision, pushes};
use crate::journal::{Attempt, DueSnapshot, TurnSnapshot};
use crate::radar;
use crate::workspace::snapshot::SnapshotError;
use crate::workspace::turn_snapshot::{TurnEnd, save};
use crate::world::World;

/// Snapshots that are made at once, of all attempts of which no turn waits for it: each runs
/// about twenty git processes.
static AT_ONCE: Semaphore = Semaphore::const_new(2);
/// Before the next try, when a file changed while git read it.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];

/// Makes it under the lock of the worktrees. Not if a later turn has begun: that may be at work
/// in them. What fails is tried again before the next turn, or by the next daemon.
pub async fn after_last_turn(world: &Arc<World>, attempt: &Attempt, worktrees: &Mutex<()>) {
    // Before the lock, so that a turn never waits for the snapshots of other attempts. The
    // semaphore is never closed.
    let _turn = AT_ONCE.acquire().await;
    let _lock = worktrees.lock().await;
    before_finish(world, attempt).await;
}

/// Makes it, or gives it up: once the next turn's process runs, it is too late. The caller holds
/// the lock of the worktrees.
pub async fn before_next_turn(world: &Arc<World>, attempt: &Attempt) {
    if let Some(due) = due(world, attempt).await
        && !make(world, attempt, due).await
    {
        record(world, attempt, due, &[]).await;
    }
}

/// Makes it if it is due, for a caller that holds the lock of the worktrees and changes them.
pub async fn before_finish(world: &Arc<World>, attempt: &Attempt) {
    if let Some(due) = due(world, attempt).await.filter(|due| due.is_last) {
        make(world, attempt, due).await;
    }
}

async fn due(world: &World, attempt: &Attempt) -> Option<DueSnapshot> {
    world.journal.due_snapshot(attempt.attempt_id).await.unwrap_or_else(|refusal| {
        tracing::warn!(attempt = %attempt.attempt_id, %refusal, "whether a snapshot is due");
        None
    })
}

/// `false`: it could not be made.
async fn make(world: &Arc<World>, attempt: &Attempt, due: DueSnapshot) -> bool {
    match prepare::has_worktrees(world, attempt.attempt_id).await {
        Ok(true) => {}
        Ok(false) => {
            record(world, attempt, due, &[]).await;
            return true;
        }
        Err(error) => {
            tracing::warn!(attempt = %attempt.attempt_id, %error, "its folder can't be read");
            return false;
        }
    }
    let mut pauses = PAUSES.into_iter();
    loop {
        let error = match save_all(world, attempt, due).await {
            Ok(saved) => {
                record(world, attempt, due, &saved).await;
                radar::look(world, &[attempt.attempt_id]);
                return true;
            }
            Err(error) => error,
        };
        let Some(pause) = pauses.next().filter(|_| error.may_pass()) else {
            tracing::warn!(attempt = %attempt.attempt_id, turn = due.turn, %error,
                "a turn gets no snapshot now");
            return false;
        };
        tokio::time::sleep(pause).await;
    }
}

async fn save_all(
    world: &World,
    attempt: &Attempt,
    due: DueSnapshot,
) -> Result<Vec<TurnSnapshot>, SnapshotError> {
    let mut all = Vec::with_capacity(attempt.repos.len());
    for repo in &attempt.repos {
        let end = TurnEnd {
            source: provision::source(world, attempt, repo).await?,
            attempt: attempt.attempt_id,
            turn: due.turn,
            at: due.ended_at,
            base: repo.base_commit.clone(),
        };
        let saved = save(&end).await?;
        all.push(TurnSnapshot {
            repo: repo.name.clone(),
            commit_id: saved.commit,
            tree_id: saved.tree,
            base_id: saved.base,
        });
    }
    Ok(all)
}

async fn record(world: &World, attempt: &Attempt, due: DueSnapshot, saved: &[TurnSnapshot]) {
    let id = attempt.attempt_id;
    let kept = bundles::of_turn(world, attempt, due.turn, saved).await;
    match world.journal.record_snapshot(id, due.turn, saved, &kept).await {
        Ok(()) if kept.is_empty() || world.settings.snapshot_remote.is_none() => {}
        Ok(()) => pushes::wake(world),
        // The references are kept, so the next try only writes the rows.
        Err(refusal) => {
            tracing::warn!(attempt = %id, turn = due.turn, %refusal, "a snapshot is not written down");
        }
    }
}

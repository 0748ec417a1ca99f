//! The snapshot of an attempt's last turn: a commit under a reference for each repository, with all that
//! the worktree had when the turn had ended.
//!
//! ```text
//!  turn settles ─ one transaction: outcome, snapshot is due ─▶ a task makes it (`after_last_turn`)
//!                                                                 └─ fails: the row says why; it stays due
//!  next turn prepares, still due ─▶ `before_next_turn`: made, or given up for good
//!  a finish begins, still due ───▶ `before_finish`: made, before the finish changes the worktrees
//!  next daemon, still due ───────▶ as after a turn
//! ```
//!
//! For callers an attempt has settled once its snapshot is made, or the row says why it can't be. The task
//! holds the lock of the worktrees, for which only the preparation of the next turn waits: neither a
//! settlement nor a stop does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};

use super::say::say;
use super::{bundles, prepare, provision, pushes};
use crate::journal::{Attempt, DueSnapshot, TurnSnapshot};
use crate::radar;
use crate::retry::while_store_fails;
use crate::workspace::snapshot::SnapshotError;
use crate::workspace::turn_snapshot::{TurnEnd, save};
use crate::world::World;

/// How many snapshots are made at once, of attempts of which no turn waits for them: each runs about twenty
/// git processes.
static AT_ONCE: Semaphore = Semaphore::const_new(2);
/// The pauses before the next tries, if a file has changed while git read it.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];

/// Makes the snapshot under the lock of the worktrees, unless a later turn has begun, which may be at work in
/// them. What fails is tried again before the next turn, or by the next daemon.
pub async fn after_last_turn(world: &Arc<World>, attempt: &Attempt, worktrees: &Mutex<()>) {
    // The semaphore comes before the lock, so that a turn never waits for the snapshots of other
    // attempts. It is never closed.
    let _turn = AT_ONCE.acquire().await;
    let _lock = worktrees.lock().await;
    before_finish(world, attempt).await;
}

/// Makes the snapshot if it is due, or gives it up and says so in the log: once the next turn's process
/// runs, it is too late. The caller holds the lock of the worktrees.
pub async fn before_next_turn(world: &Arc<World>, attempt: &Attempt) {
    if let Some(due) = due(world, attempt).await
        && let Err(reason) = make(world, attempt, due).await
    {
        say(world, attempt, format!("Turn {} has no snapshot: {reason}", due.turn)).await;
        record(world, attempt, due, &[]).await;
    }
}

/// Makes the snapshot of the last turn if it is due. The caller holds the lock of the worktrees, and may
/// change them afterwards.
pub async fn before_finish(world: &Arc<World>, attempt: &Attempt) {
    let Some(due) = due(world, attempt).await.filter(|due| due.is_last) else { return };
    let id = attempt.attempt_id;
    if let Err(reason) = make(world, attempt, due).await {
        tracing::warn!(attempt = %id, turn = due.turn, reason, "a turn gets no snapshot now");
        let failed = || world.journal.snapshot_failed(id, due.turn, &reason);
        // Tried again only while the store fails: without this note the attempt would seem to run on.
        let _ = while_store_fails(format!("a note on the snapshot of {id}"), failed).await;
    }
}

/// The turn whose snapshot is due. `None` also if the store refuses to say.
async fn due(world: &World, attempt: &Attempt) -> Option<DueSnapshot> {
    let id = attempt.attempt_id;
    let due = while_store_fails(format!("a look for a due snapshot of {id}"), || {
        world.journal.due_snapshot(id)
    });
    due.await.unwrap_or_default()
}

/// Makes and records the snapshot of a turn. Without worktrees there is nothing to save, which is
/// recorded. `Err`: why it can't be made, as part of a sentence.
async fn make(world: &Arc<World>, attempt: &Attempt, due: DueSnapshot) -> Result<(), String> {
    match prepare::has_worktrees(world, attempt.attempt_id).await {
        Ok(true) => {}
        Ok(false) => {
            record(world, attempt, due, &[]).await;
            return Ok(());
        }
        Err(error) => return Err(format!("its folder can't be read: {error}")),
    }
    let mut pauses = PAUSES.into_iter();
    loop {
        let error = match save_all(world, attempt, due).await {
            Ok(saved) => {
                record(world, attempt, due, &saved).await;
                radar::look(world, &[attempt.attempt_id]);
                return Ok(());
            }
            Err(error) => error,
        };
        let Some(pause) = pauses.next().filter(|_| error.may_pass()) else {
            return Err(error.to_string());
        };
        tokio::time::sleep(pause).await;
    }
}

/// Saves the worktree of each repository under a reference. Repeatable: the last try counts.
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
        if let Some(left_out) = saved.left_out {
            let what =
                format!("The snapshot of turn {} leaves something out: {left_out}.", due.turn);
            say(world, attempt, what).await;
        }
        all.push(TurnSnapshot {
            repo: repo.name.clone(),
            commit_id: saved.commit,
            tree_id: saved.tree,
            base_id: saved.base,
        });
    }
    Ok(all)
}

/// Writes the rows of a snapshot, and its bundles for other hosts. No `saved`: it can't be made any more.
async fn record(world: &World, attempt: &Attempt, due: DueSnapshot, saved: &[TurnSnapshot]) {
    let id = attempt.attempt_id;
    let kept = bundles::of_turn(world, attempt, due.turn, saved).await;
    // If this fails the references stay, so the next try only writes the rows.
    let recorded = while_store_fails(format!("a note of the snapshot of {id}"), || {
        world.journal.record_snapshot(id, due.turn, saved, &kept)
    });
    match recorded.await {
        Ok(()) if kept.is_empty() || world.settings.worktrees.snapshot_remote.is_none() => {}
        Ok(()) => pushes::wake(world),
        Err(refusal) => {
            tracing::warn!(attempt = %id, turn = due.turn, %refusal, "a snapshot is not written down");
        }
    }
}

//! The worktrees of an attempt that has come from another host: made as its last turn with a snapshot
//! left them. What this host had of it before it was there is not the attempt's any more.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::bundles;
use super::remove_worktrees::{COLLECTED, MARKER};
use crate::blocking::blocking;
use crate::failpoint;
use crate::journal::{Attempt, AttemptRepo, TurnSnapshot};
use crate::process::records;
use crate::refusal::Refusal;
use crate::workspace::{NewWorktree, Snapshotted, add_worktree, restore_worktree};
use crate::world::World;

/// Makes the worktrees, without what they have beside their commits. `Err` is a sentence.
pub async fn restore_worktrees(
    world: &World,
    attempt: &Attempt,
    folder: &Path,
) -> Result<(), String> {
    let made = tokio::fs::create_dir_all(folder).await;
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    failpoint::hit("worktree", "next");
    let has_moved = has_moved(world, attempt);
    let left = if has_moved { fetch_all(world, attempt).await? } else { Vec::new() };
    for repo in &attempt.repos {
        bundles::ensure_base(world, repo, attempt.fork.is_some()).await?;
        let worktree = worktree(world, attempt, repo);
        let path = repo.path.as_ref();
        let snapshot = left.iter().find(|snapshot| snapshot.repo == repo.name);
        let commit = snapshot.map(|snapshot| snapshot.commit_id.clone());
        let is_new = !has_moved || attempt.process.turn == 1 && commit.is_none();
        let new = if is_new { Some(add_worktree(path, &worktree).await) } else { None };
        let added = match new {
            Some(new) if new.is_ok() || !has_moved => new,
            // Its former host may share the repository, and have a worktree of its branch.
            _ => {
                let left = Snapshotted { commit, kept: kept(attempt) };
                restore_worktree(path, &worktree, &left).await
            }
        };
        added.map_err(|error| format!("no worktree of {} could be made: {error}", repo.path))?;
        failpoint::hit("worktree", "made");
    }
    Ok(())
}

/// Below this reference, what a branch had beyond its attempt's last turn is kept.
fn kept(attempt: &Attempt) -> String {
    format!("refs/provost/moved/{}", attempt.attempt_id)
}

fn worktree(world: &World, attempt: &Attempt, repo: &AttemptRepo) -> NewWorktree {
    let source = world.settings.source(attempt, repo);
    NewWorktree {
        attempt: attempt.attempt_id,
        path: source.worktree(),
        own: source.own,
        branch: source.branch,
        base: source.base,
        trash: world.settings.trash_dir.clone(),
        scratch: source.scratch,
    }
}

/// Makes a worktree again that is gone, as the last turn with a snapshot left it. `Err` is a sentence.
pub async fn lay_again(world: &World, attempt: &Attempt, repo: &AttemptRepo) -> Result<(), String> {
    let left = fetch_all(world, attempt).await?;
    let commit = left.into_iter().find(|snapshot| snapshot.repo == repo.name);
    let left = Snapshotted { commit: commit.map(|it| it.commit_id), kept: kept(attempt) };
    let worktree = worktree(world, attempt, repo);
    let made = restore_worktree(repo.path.as_ref(), &worktree, &left).await;
    made.map_err(|error| format!("no worktree of {} could be made: {error}", repo.path))
}

/// Whether the worktrees that are to be made are those of another host. What was collected here was
/// collected with what its last turn left.
fn has_moved(world: &World, attempt: &Attempt) -> bool {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    attempt.placed_epoch > 0 && !dir.join(COLLECTED).exists()
}

/// Has all commits that the worktrees are made of in the repositories of this host. Returns what the
/// last turn with a snapshot left. `Err` is a sentence.
pub async fn fetch_all(world: &World, attempt: &Attempt) -> Result<Vec<TurnSnapshot>, String> {
    let text = |refusal: Refusal| refusal.message;
    for repo in &attempt.repos {
        bundles::ensure_base(world, repo, attempt.fork.is_some()).await?;
    }
    let turns = world.journal.snapshot_turns(attempt.attempt_id).await.map_err(text)?;
    let Some(turn) = turns.last().copied() else { return Ok(Vec::new()) };
    let left = world.journal.turn_snapshot(attempt.attempt_id, turn).await.map_err(text)?;
    for repo in &attempt.repos {
        if let Some(snapshot) = left.iter().find(|snapshot| snapshot.repo == repo.name) {
            bundles::have_turn(world, attempt, repo, (turn, &snapshot.commit_id)).await?;
        }
    }
    Ok(left)
}

/// Forgets the worktrees that this host had of an attempt before that was at another one. Their
/// files go to the trash once new ones are made.
pub async fn forget_former(world: &World, attempt: &Attempt) -> io::Result<()> {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let placed = attempt.placed_epoch;
    if placed == 0 {
        return Ok(());
    }
    blocking(move || {
        for name in [MARKER, COLLECTED] {
            let marker: Option<Value> = records::read(&dir, name)?;
            if marker.is_some_and(|it| it["epoch"].as_u64().unwrap_or_default() < placed) {
                fs::remove_file(dir.join(name))?;
            }
        }
        Ok(())
    })
    .await
}

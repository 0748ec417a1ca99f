//! The worktrees of an attempt that has come from another host, made as its last turn with a snapshot
//! left them. What this host had of the attempt before the other host got it is out of date.

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

/// Makes all worktrees of an attempt, without what is copied or set up beside their commits. They begin at
/// the attempt's branch, or, if the attempt comes from another host, as its last snapshot has them. `Err` is
/// a sentence.
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
            // The former host may share the repository, and have a worktree of the branch: it is made as the
            // snapshot has it, wherever the branch is.
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

/// The prefix of the references that keep what a branch has beyond its attempt's last snapshot.
fn kept(attempt: &Attempt) -> String {
    format!("refs/provost/moved/{}", attempt.attempt_id)
}

/// Where the worktree of a repository is to be, and what it is to show.
fn worktree(world: &World, attempt: &Attempt, repo: &AttemptRepo) -> NewWorktree {
    let source = world.settings.source(attempt, repo);
    NewWorktree {
        attempt: attempt.attempt_id,
        path: source.worktree(),
        own: source.own,
        branch: source.branch,
        base: source.base,
        trash: world.settings.folders.trash.clone(),
        scratch: source.scratch,
    }
}

/// Makes one worktree again that somebody has deleted, as the last turn with a snapshot left it. `Err` is a
/// sentence.
pub async fn lay_again(world: &World, attempt: &Attempt, repo: &AttemptRepo) -> Result<(), String> {
    let left = fetch_all(world, attempt).await?;
    let commit = left.into_iter().find(|snapshot| snapshot.repo == repo.name);
    let left = Snapshotted { commit: commit.map(|it| it.commit_id), kept: kept(attempt) };
    let worktree = worktree(world, attempt, repo);
    let made = restore_worktree(repo.path.as_ref(), &worktree, &left).await;
    made.map_err(|error| format!("no worktree of {} could be made: {error}", repo.path))
}

/// Whether the worktrees that are to be made come from another host. If this host collected them since the
/// attempt came, it did so with what the last turn left: they are made from the branch then.
fn has_moved(world: &World, attempt: &Attempt) -> bool {
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    attempt.placed_epoch > 0 && !dir.join(COLLECTED).exists()
}

/// Makes sure that this host has all commits that the worktrees are made of. Returns the snapshot of the last
/// turn that has one; empty: no turn has. `Err` is a sentence.
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

/// Removes the markers of worktrees that this host had before the attempt was on another host: they count as
/// never made. Their files go to the trash when new ones are made.
///
/// # Errors
/// A marker can't be read or removed.
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

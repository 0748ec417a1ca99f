//! The snapshot of a turn: a commit of all files of a worktree that git does not ignore, under a
//! reference of its own. The worktree's HEAD, index and files stay as they are. Idempotent by the
//! name of the reference: the one that is there is kept.

use std::path::Path;

use super::frozen;
use super::git::{self, GitError};
use super::snapshot::{Snapshot, SnapshotError, Source};
use crate::event::Timestamp;
use crate::failpoint;
use crate::ids::AttemptId;

/// What is to be saved, and as what.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    pub source: Source,
    pub attempt: AttemptId,
    pub turn: u32,
    pub at: Timestamp,
    /// The commit that the attempt's branch started from. It stands in for the merge base with
    /// the target branch where there is none.
    pub base: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    pub commit: String,
    pub tree: String,
    /// The merge base with the target branch.
    pub base: String,
}

/// The reference of a turn's snapshot.
pub fn reference(attempt: AttemptId, turn: u32) -> String {
    format!("refs/provost/attempts/{attempt}/{turn}")
}

/// Saves what a worktree has, unless the turn's reference is there.
pub async fn save(end: &TurnEnd) -> Result<Saved, SnapshotError> {
    let repo = &end.source.repo;
    let reference = reference(end.attempt, end.turn);
    let commit = match git::ref_tip(repo, &reference).await? {
        Some(commit) => commit,
        None => make(end, &reference).await?,
    };
    let tree = git::run(repo, &["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).await?;
    // The same for a commit that was found as for one that was made.
    let base = match git::branch_tip(repo, &end.source.target_branch).await? {
        Some(target) => git::merge_base(repo, &commit, &target).await?,
        None => None,
    };
    Ok(Saved { commit, tree, base: base.unwrap_or_else(|| end.base.clone()) })
}

async fn make(end: &TurnEnd, reference: &str) -> Result<String, SnapshotError> {
    let snapshot = Snapshot::take_from(&end.source, Some(&end.base)).await?;
    let objects = snapshot.aside.common.join("objects");
    let tree = frozen::write_tree(&snapshot, &objects).await?;
    let mut git = snapshot.writing(&objects);
    // With the date of the turn's end, the same files give the same commit.
    let date = format!("@{} +0000", end.at.millis().div_euclid(1000));
    git.command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
    let about = format!("Turn {} of attempt {}", end.turn, end.attempt);
    let commit = git.text(&["commit-tree", &tree, "-p", &snapshot.head, "-m", &about]).await?;
    failpoint::hit("snapshot", "made");
    create(end, reference, commit).await
}

/// Creates the reference. Returns the commit that it names, which another maker may have made.
async fn create(end: &TurnEnd, reference: &str, commit: String) -> Result<String, SnapshotError> {
    let repo = &end.source.repo;
    // The empty old value: only if there is no such reference (git-update-ref(1)).
    let update = ["-c", "core.fsync=all", "update-ref", "-m", "provost", reference, &commit, ""];
    match git::run(repo, &update).await {
        Ok(_) => failpoint::hit("snapshot", "referred"),
        Err(error @ GitError::Failed(_)) => {
            return git::ref_tip(repo, reference).await?.ok_or_else(|| error.into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(commit)
}

/// Deletes the references of these turns, as far as they are there. The commits go when git
/// collects its garbage.
pub async fn forget(repo: &Path, attempt: AttemptId, turns: &[u32]) -> Result<(), GitError> {
    for turn in turns {
        let reference = reference(attempt, *turn);
        // It may be gone since a call that was cut off.
        if git::ref_tip(repo, &reference).await?.is_some() {
            git::run(repo, &["update-ref", "-d", &reference]).await?;
        }
        failpoint::hit("snapshot", "forgotten");
    }
    Ok(())
}

#[cfg(test)]
mod tests;

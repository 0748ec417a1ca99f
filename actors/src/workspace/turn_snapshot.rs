//! The snapshot of a turn: a commit of all files of a worktree that git does not ignore, under a
//! reference of its own. The worktree's HEAD, index and files stay as they are. Idempotent: the same
//! files at the end of the same turn give the same commit.

use std::path::Path;

use super::git::{self, GitError};
use super::left_out::{LeftOut, left_out};
use super::merge::Signature;
use super::own;
use super::scratch_repo::ScratchRepo;
use super::signing::Signing;
use super::snapshot::{Snapshot, SnapshotError};
use super::source::Source;
use super::{parting, references, worktree_commit};
use crate::blocking::blocking;
use crate::event::Timestamp;
use crate::failpoint;
use crate::ids::AttemptId;

/// The end of a turn, in one repository.
#[derive(Clone, Debug)]
pub struct TurnEnd {
    pub source: Source,
    pub attempt: AttemptId,
    /// The number of the turn in its attempt, from 1.
    pub turn: u32,
    /// When the turn ended: the date of the commit.
    pub at: Timestamp,
    /// The commit from which the attempt began. It is used where the work and the target branch have no
    /// commit in common.
    pub base: String,
}

/// A snapshot that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its first parent is the commit that was checked out.
    pub commit: String,
    pub tree: String,
    /// The commit since which the work counts against the target branch.
    pub base: String,
    /// The first thing of the worktree that the commit could not hold.
    pub left_out: Option<LeftOut>,
}

/// The reference of a turn's snapshot, in the person's repository.
pub fn reference(attempt: AttemptId, turn: u32) -> String {
    format!("refs/provost/attempts/{attempt}/{turn}")
}

/// Saves what a worktree has, takes over what was committed in it, and puts back what git opens there by
/// name. The turn's reference is then at the snapshot, wherever it was before. Call it once the processes
/// of the turn have ended.
pub async fn save(end: &TurnEnd) -> Result<Saved, SnapshotError> {
    let repo = &end.source.repo;
    let Made { commit, tree, left_out } = make(end).await?;
    let reference = reference(end.attempt, end.turn);
    references::set(repo, &reference, &commit, None, "provost").await?;
    failpoint::hit("snapshot", "referred");
    let Source { target_branch, history, .. } = &end.source;
    let base = parting::since(repo, target_branch, &commit, history).await?;
    Ok(Saved { commit, tree, base: base.unwrap_or_else(|| end.base.clone()), left_out })
}

/// The commit of a snapshot, before a reference has it.
struct Made {
    commit: String,
    tree: String,
    left_out: Option<LeftOut>,
}

/// Puts back what a person's git, or Provost's, opens by name in a worktree, also in repositories that
/// lie in it. Call it once the processes that could have changed it have ended. Returns a snapshot of the
/// worktree after that; `base` as in [`Snapshot::take_from`].
pub async fn put_back(source: &Source, base: &str) -> Result<Snapshot, SnapshotError> {
    own::settle(source).await?;
    let snapshot = Snapshot::take_from(source, Some(base)).await?;
    let nested = snapshot.repositories().await?;
    let of = source.clone();
    blocking(move || own::clear_nested(&of, &nested)).await?;
    Ok(snapshot)
}

/// Makes the commit of a snapshot.
async fn make(end: &TurnEnd) -> Result<Made, SnapshotError> {
    let snapshot = put_back(&end.source, &end.base).await?;
    let objects = snapshot.aside.common.join("objects");
    let tree = worktree_commit::write_tree(&snapshot, &objects).await?;
    snapshot.keep_index(&end.source.own).await?;
    let left_out = left_out(&end.source.repo, &snapshot).await?;
    let mut git = snapshot.writing(&objects);
    // With the date of the turn's end, the same files give the same commit.
    let date = format!("@{} +0000", end.at.millis().div_euclid(1000));
    git.command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
    let about = format!("Turn {} of attempt {}", end.turn, end.attempt);
    let commit = git.text(&["commit-tree", &tree, "-p", &snapshot.head, "-m", &about]).await?;
    failpoint::hit("snapshot", "made");
    Ok(Made { commit, tree, left_out })
}

/// A commit from which another attempt begins where a turn ended: the files and the parent of the
/// snapshot, signed by a person, because a merge may bring it to the target branch. If all was committed,
/// it is the parent itself. The same snapshot gives the same commit, apart from a signature by a key.
pub async fn begin_at(
    repo: &Path,
    scratch: &Path,
    snapshot: &str,
    message: &str,
    (by, signing): (&Signature, &Signing),
) -> Result<String, GitError> {
    let show = ["log", "-1", "--no-show-signature", "--date=raw", "--format=%P%n%T%n%ad", snapshot];
    let shown = git::run(repo, &show).await?;
    let [parent, tree, date] = shown.lines().collect::<Vec<_>>()[..] else {
        return Err(GitError::Failed(format!("{snapshot} is no snapshot")));
    };
    if git::run(repo, &["rev-parse", "--verify", &format!("{parent}^{{tree}}")]).await? == tree {
        return Ok(parent.to_owned());
    }
    let common = git::common_dir(repo).await?;
    let aside = ScratchRepo::make(scratch, &common).await?;
    let by = Signature { date: date.to_owned(), ..by.clone() };
    let git = || {
        let mut git = aside.git(aside.path());
        git.command.args(["-c", "core.fsync=all"]);
        git.command.env("GIT_OBJECT_DIRECTORY", common.join("objects"));
        by.sign(&mut git, &["AUTHOR", "COMMITTER"]);
        git
    };
    signing.commit_tree(git, &[tree, "-p", parent, "-m", message]).await
}

/// Deletes the references of these turns; missing ones are no error. The commits go when git collects its
/// garbage.
pub async fn forget(repo: &Path, attempt: AttemptId, turns: &[u32]) -> Result<(), GitError> {
    for turn in turns {
        references::delete(repo, &reference(attempt, *turn)).await?;
        failpoint::hit("snapshot", "forgotten");
    }
    Ok(())
}

#[cfg(test)]
mod tests;

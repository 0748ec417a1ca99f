//! Commits everything in a worktree that git does not ignore: in the person's repository, on the
//! attempt's branch there. Then the attempt's own repository follows. The worktree's files stay as they
//! are.
//!
//! ```text
//!  lock the index ─▶ take over the agent's commits ─▶ write the tree ─▶ make the commit ─▶ move the branch
//!       ─▶ the own repository's HEAD follows ─▶ install the index, unlock
//! ```
//!
//! The same call continues one that was cut off: it finds the branch where it was, or at a commit that
//! has all that was to be committed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::git::{self, GitError};
use super::index_lock::IndexLock;
use super::left_out::{LeftOut, left_out};
use super::merge::Signature;
use super::own::{self, branch_reference, head_reference, held};
use super::signing::Signing;
use super::snapshot::{self, Snapshot, SnapshotError};
use super::source::Source;
use super::{references, worktree_commit};
use crate::failpoint;

/// What to commit. All of it is on record, so that a later daemon can make the same call.
#[derive(Clone, Debug)]
pub struct Commit {
    pub source: Source,
    pub message: String,
    /// The author, and the committer unless the signature names another one.
    pub author: Signature,
    pub signing: Arc<Signing>,
    /// Names this commit in the lock of the index, so that a later daemon recognizes its own.
    pub mark: String,
}

/// Why nothing was committed: part of a sentence. After an I/O error, the next call continues.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another branch or commit is checked out, and lacks commits of the attempt's branch.
    #[error(
        "its branch {branch} has commits that what is checked out in the worktree, {found}, lacks"
    )]
    OtherBranch { branch: String, found: String },
    /// A merge, rebase or the like, by git's record of it.
    #[error("something is under way in the worktree ({0})")]
    UnderWay(&'static str),
    /// The path of the first file with a conflict.
    #[error(
        "{0} has a conflict that is not resolved: resolve it and run `git add` in the worktree"
    )]
    Unmerged(String),
    /// Another program has the lock of the index. The caller waits and tries again.
    #[error("a git command is, or was, at work in the worktree (index.lock)")]
    Locked,
    /// The id of the commit.
    #[error(
        "commit {0} has a file of credentials that the worktree got a copy of: have the agent take \
         it out of that commit, not only delete it"
    )]
    Credentials(String),
    /// Files that no commit can hold would be missing from it.
    #[error(transparent)]
    LeftOut(#[from] LeftOut),
    /// The person's branch is not where the attempt left it: part of a sentence.
    #[error("{0}")]
    Moved(String),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<GitError> for CommitError {
    fn from(error: GitError) -> Self {
        Self::Snapshot(error.into())
    }
}

/// Commits. Returns the commit at which the branch is now, and whether it is a new one: without changes,
/// none is made. Call it in the repository's turn
/// ([`Repositories::in_turn`](super::Repositories::in_turn)), while no turn of the attempt runs.
pub async fn commit(commit: &Commit) -> Result<(String, bool), CommitError> {
    let source = &commit.source;
    snapshot::open_worktree(source).await?;
    // The lock comes first: if an earlier daemon left it, this call takes it and so releases it at its end,
    // also when it refuses.
    let admin = source.own.admin();
    let index = IndexLock::take(&admin, &commit.mark).await?.ok_or(CommitError::Locked)?;
    failpoint::hit("commit", "locked");
    match committed(commit, &index).await {
        Ok(done) => {
            index.install().await?;
            Ok(done)
        }
        Err(error) => {
            index.release().await?;
            Err(error)
        }
    }
}

/// Everything that happens under the lock. After a success, the lock has the next index ready.
async fn committed(commit: &Commit, index: &IndexLock) -> Result<(String, bool), CommitError> {
    let Commit { source, message, author, signing, .. } = commit;
    own::settle(source).await?;
    let snapshot = Snapshot::take_from(source, Some(&source.base)).await?;
    let common = &snapshot.aside.common;
    let objects = common.join("objects");
    let head = &snapshot.head;
    if let Some(path) = snapshot.unmerged.first() {
        return Err(CommitError::Unmerged(String::from_utf8_lossy(path).into_owned()));
    }
    if let Some(sign) = under_way(&source.own.admin()) {
        return Err(CommitError::UnderWay(sign));
    }
    let shown = has_branch(source, &snapshot).await?;
    let tree = worktree_commit::write_tree(&snapshot, &objects).await?;
    if let Some(left_out) = left_out(&source.repo, &snapshot).await? {
        return Err(left_out.into());
    }
    index.prepare(&snapshot.index()).await?;
    if let Some(commit) = source.credential_in(head, &snapshot.base).await? {
        return Err(CommitError::Credentials(commit));
    }
    if tree == git::run(common, &["rev-parse", &format!("{head}^{{tree}}")]).await? {
        advance(source, head, &shown).await?;
        return Ok((head.clone(), false));
    }
    let git = || {
        let mut git = snapshot.writing(&objects);
        git.command.args(["-c", "core.fsync=all"]);
        author.sign(&mut git, &["AUTHOR", "COMMITTER"]);
        git
    };
    let new = match git::run(common, &["rev-parse", &format!("{shown}^{{tree}}")]).await? {
        // An earlier call has made the commit, and moved the branch to it.
        earlier if earlier == tree && is_child(source, &shown, head).await => shown.clone(),
        _ => signing.commit_tree(git, &[&tree, "-p", head, "-m", message.trim_end()]).await?,
    };
    failpoint::hit("commit", "made");
    advance(source, &new, &shown).await?;
    failpoint::hit("commit", "moved");
    follow(source, common, &new, head).await?;
    snapshot.keep_index(&source.own).await?;
    Ok((new, true))
}

/// git's records of operations that take several steps. Other records, such as that of the commit that
/// was cherry-picked last, do not change what a commit contains.
const STEPS: [&str; 4] = ["rebase-merge", "rebase-apply", "MERGE_HEAD", "sequencer"];

/// The record of the operation that is under way, if there is one.
fn under_way(admin: &Path) -> Option<&'static str> {
    STEPS.into_iter().find(|sign| admin.join(sign).symlink_metadata().is_ok())
}

/// Where the person's branch of the attempt is. What is checked out must have all of it, or be what an
/// earlier try of the same call has committed: otherwise the commit would drop work from the branch.
async fn has_branch(source: &Source, snapshot: &Snapshot) -> Result<String, CommitError> {
    let heads = &snapshot.heads;
    let branch = match &heads.branch {
        Ok(branch) => branch.clone(),
        Err(left) => match git::branch_tip(&source.repo, &source.branch).await? {
            // An earlier try may have committed what is checked out, before it was cut off.
            Some(tip) if is_child(source, &tip, &heads.head).await => return Ok(tip),
            _ => return Err(CommitError::Moved(left.why.clone())),
        },
    };
    let has = git::merge_base(&source.repo, &branch, &heads.head).await?;
    if has.as_ref() == Some(&branch) {
        return Ok(branch);
    }
    let found = heads.shows.clone().unwrap_or_else(|| "a commit".to_owned());
    Err(CommitError::OtherBranch { branch: source.branch.clone(), found })
}

/// Whether the first parent of a commit is this one. A commit that can't be read is no child.
async fn is_child(source: &Source, commit: &str, parent: &str) -> bool {
    let parents = git::run(&source.repo, &["rev-parse", &format!("{commit}^")]).await;
    parents.is_ok_and(|found| found == parent)
}

/// Moves the person's branch of the attempt by compare-and-swap, then the references that say what was
/// taken over.
async fn advance(source: &Source, to: &str, from: &str) -> Result<(), CommitError> {
    let (repo, branch) = (&source.repo, source.branch_ref());
    if to != from {
        let moved = references::set(repo, &branch, to, Some(from), "provost commit").await;
        let describe = |error| format!("its branch has moved meanwhile: {error}");
        moved.map_err(|error: GitError| CommitError::Moved(describe(error)))?;
    }
    let kept = [branch_reference(source.attempt), head_reference(source.attempt)];
    for name in kept {
        references::set(repo, &name, to, None, "provost commit").await?;
    }
    Ok(())
}

/// Sets HEAD of the attempt's own repository to the new commit, by compare-and-swap. git runs in the box.
async fn follow(source: &Source, common: &Path, new: &str, old: &str) -> Result<(), CommitError> {
    let held = held::held(&source.own, common, &source.worktree()).await?;
    let update = ["update-ref", "-m", "provost commit", "HEAD", new, old];
    held::git(&source.own, held.as_ref()).text(&update).await?;
    Ok(())
}

#[cfg(test)]
mod tests;

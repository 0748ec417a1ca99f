//! Commits all that a worktree has and git does not ignore, on the attempt's own branch. The
//! worktree's files stay as they are; its index follows. The same call continues one that was
//! cut off: a commit is a function of its files, message and signature.

use std::io;
use std::path::Path;

use super::frozen;
use super::git::{self, GitError};
use super::index_lock::IndexLock;
use super::merge::Signature;
use super::proof::UNDER_WAY;
use super::snapshot::{self, Snapshot, SnapshotError, Source};
use crate::failpoint;

#[derive(Clone, Debug)]
pub struct Commit {
    pub source: Source,
    pub message: String,
    pub author: Signature,
    /// Names this commit, for a daemon that continues it.
    pub mark: String,
}

/// Why nothing was committed: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("its branch {branch} is not checked out in the worktree, but {found} is")]
    OtherBranch { branch: String, found: String },
    #[error("something is under way in the worktree ({0})")]
    UnderWay(&'static str),
    #[error("a git command is, or was, at work in the worktree (index.lock)")]
    Locked,
    #[error(
        "commit {0} has a file of credentials that the worktree got a copy of: have the agent take \
         it out of that commit, not only delete it"
    )]
    Credentials(String),
    #[error("its branch has moved meanwhile: {0}")]
    Moved(GitError),
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

/// Commits. Returns the commit that the branch is at, and whether it is a new one. Call it in
/// the repository's turn, while no turn of the attempt runs.
pub async fn commit(commit: &Commit) -> Result<(String, bool), CommitError> {
    let source = &commit.source;
    let common = git::common_dir(&source.repo).await?;
    let (_, admin) = snapshot::open_worktree(source, &common).await?;
    // First of all: an earlier daemon's lock goes, whatever is found then.
    let index = IndexLock::take(&admin, &commit.mark).await?.ok_or(CommitError::Locked)?;
    failpoint::hit("commit", "locked");
    let done = match shows_branch(source, &common, &admin).await {
        Ok(()) => committed(commit, &common, &index).await,
        Err(error) => Err(error),
    };
    match done {
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

/// Whether the attempt's branch is checked out, and nothing is under way.
async fn shows_branch(source: &Source, common: &Path, admin: &Path) -> Result<(), CommitError> {
    if let Some(sign) = UNDER_WAY.iter().find(|sign| admin.join(sign).exists()) {
        return Err(CommitError::UnderWay(sign));
    }
    let git_dir = admin.to_string_lossy();
    let head = ["--git-dir", &*git_dir, "symbolic-ref", "--quiet", "HEAD"];
    let found = git::run(common, &head).await.unwrap_or_else(|_| "a commit".to_owned());
    if found == format!("refs/heads/{}", source.branch) {
        return Ok(());
    }
    Err(CommitError::OtherBranch { branch: source.branch.clone(), found })
}

async fn committed(
    commit: &Commit,
    common: &Path,
    index: &IndexLock,
) -> Result<(String, bool), CommitError> {
    let Commit { source, message, author, .. } = commit;
    let objects = common.join("objects");
    let snapshot = Snapshot::take(source).await?;
    let tree = frozen::write_tree(&snapshot, &objects).await?;
    index.prepare(&snapshot.index()).await?;
    let head = &snapshot.head;
    if let Some(commit) = source.credential_in(head, &snapshot.base).await? {
        return Err(CommitError::Credentials(commit));
    }
    if tree == git::run(common, &["rev-parse", &format!("{head}^{{tree}}")]).await? {
        return Ok((head.clone(), false));
    }
    let mut git = snapshot.writing(&objects);
    git.command.args(["-c", "core.fsync=all"]);
    author.sign(&mut git, &["AUTHOR", "COMMITTER"]);
    let new = git.text(&["commit-tree", &tree, "-p", head, "-m", message.trim_end()]).await?;
    failpoint::hit("commit", "made");
    let reference = format!("refs/heads/{}", source.branch);
    let update = ["update-ref", "--no-deref", "-m", "provost commit", &reference, &new, head];
    git::run(common, &update).await.map_err(CommitError::Moved)?;
    failpoint::hit("commit", "moved");
    Ok((new, true))
}

#[cfg(test)]
mod tests;

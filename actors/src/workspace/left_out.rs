//! Finds what lies in a worktree and no commit of it can hold: repositories of their own, folders that
//! can't be read, and commits of submodules that only the worktree has. A call that would lose such a
//! thing is refused, and names it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::git::{self, GitError};
use super::snapshot::{Snapshot, SnapshotError};

/// What a commit would leave out: part of a sentence, with what to do. The text is the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// A git repository that is no submodule.
    #[error(
        "{0} is a git repository of its own, whose files no commit of this one holds: remove its .git \
         to take them along, or have git ignore it"
    )]
    Repository(String),
    /// A folder that git could not read.
    #[error("{0} can't be read: change its mode or its owner, or have git ignore it")]
    Unreadable(String),
    /// A submodule at a commit that only the worktree has: `repo`, the person's checkout of it, lacks it.
    #[error(
        "the submodule {path} is at commit {commit}, which {repo} does not have: push it to the \
         submodule's remote and fetch it there"
    )]
    Submodule { path: String, commit: String, repo: String },
}

/// The first thing that a commit of the snapshot, in the person's repository, would leave out; `None`:
/// nothing. Call it once the files are in the snapshot's index.
pub async fn left_out(repo: &Path, snapshot: &Snapshot) -> Result<Option<LeftOut>, SnapshotError> {
    let shown = |path: &[u8]| String::from_utf8_lossy(path).trim_end_matches('/').to_owned();
    if let Some(path) = snapshot.nested.first() {
        return Ok(Some(LeftOut::Repository(shown(path))));
    }
    if let Some(path) = &snapshot.unreadable {
        return Ok(Some(LeftOut::Unreadable(path.clone())));
    }
    for (path, commit) in snapshot.moved_submodules().await? {
        if !has(repo, &path, &commit).await? {
            let repo = repo.join(OsStr::from_bytes(&path)).display().to_string();
            return Ok(Some(LeftOut::Submodule { path: shown(&path), commit, repo }));
        }
    }
    Ok(None)
}

/// Whether the person's own checkout of the submodule at a path has a commit.
async fn has(repo: &Path, path: &[u8], commit: &str) -> Result<bool, GitError> {
    let there = repo.join(OsStr::from_bytes(path));
    // Without a `.git`, git would look in the repository around the folder.
    if tokio::fs::symlink_metadata(there.join(".git")).await.is_err() {
        return Ok(false);
    }
    match git::run(&there, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).await {
        Ok(_) => Ok(true),
        Err(GitError::Failed(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

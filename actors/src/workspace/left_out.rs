//! What lies in a worktree and no commit of it can hold: repositories of their own, folders that can't be read,
//! and commits of submodules that only the worktree has. What would lose it is refused by its name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::git::{self, GitError};
use super::snapshot::{Snapshot, SnapshotError};

/// Part of a sentence, after its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    #[error(
        "{0} is a git repository of its own, whose files no commit of this one holds: remove its .git \
         to take them along, or have git ignore it"
    )]
    Repository(String),
    #[error("{0} can't be read: change its mode or its owner, or have git ignore it")]
    Unreadable(String),
    #[error(
        "the submodule {path} is at commit {commit}, which {repo} does not have: push it to the \
         submodule's remote and fetch it there"
    )]
    Submodule { path: String, commit: String, repo: String },
}

/// The first of what a commit of the snapshot, in the person's repository, would leave out.
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

/// Whether the person's own submodule at a path has a commit.
async fn has(repo: &Path, path: &[u8], commit: &str) -> Result<bool, GitError> {
    let there = repo.join(OsStr::from_bytes(path));
    // Without a checkout of its own, git would ask the repository around it.
    if tokio::fs::symlink_metadata(there.join(".git")).await.is_err() {
        return Ok(false);
    }
    match git::run(&there, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).await {
        Ok(_) => Ok(true),
        Err(GitError::Failed(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

//! Two states of a repository that are compared: a commit with the files of an attempt's worktree as they
//! are now, or a commit with a later one. One type for both, so that the domain shows them in the same
//! way.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use super::between::Between;
use super::changes::{self, Change};
use super::git::Git;
use super::left_out::{LeftOut, left_out};
use super::page::Range;
use super::snapshot::{Snapshot, SnapshotError};
use super::source::Source;
use crate::blocking::blocking;

/// Which states are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// The worktree, with the commit at which the attempt's work and the target branch parted.
    SinceMergeBase,
    /// The worktree, with this commit.
    Since(String),
    /// Two commits: from the first to the second.
    Between(String, String),
}

/// The opened states.
pub enum Compared {
    Worktree(Box<Snapshot>),
    Commits(Box<Between>),
}

impl Compared {
    /// Opens the states. For a worktree this takes a snapshot, which reads the changed files; for two
    /// commits it only makes a scratch repository.
    pub async fn take(source: &Source, span: &Span) -> Result<Self, SnapshotError> {
        Ok(match span {
            Span::SinceMergeBase => Self::Worktree(Box::new(Snapshot::take(source).await?)),
            Span::Since(from) => {
                let mut snapshot = Snapshot::take_from(source, Some(from)).await?;
                snapshot.base.clone_from(from);
                Self::Worktree(Box::new(snapshot))
            }
            Span::Between(from, to) => {
                Self::Commits(Box::new(Between::open(source, from, to).await?))
            }
        })
    }

    /// The commit on the old side.
    pub fn base(&self) -> &str {
        match self {
            Self::Worktree(snapshot) => &snapshot.base,
            Self::Commits(between) => &between.from,
        }
    }

    /// The commit on the new side; `None`: the worktree is the new side.
    pub fn end(&self) -> Option<&str> {
        match self {
            Self::Worktree(_) => None,
            Self::Commits(between) => Some(&between.to),
        }
    }

    /// Everything that differs, sorted by path.
    pub async fn changes(&self) -> Result<Vec<Change>, SnapshotError> {
        match self {
            Self::Worktree(snapshot) => snapshot.changes().await,
            Self::Commits(between) => between.changes().await,
        }
    }

    /// The first file that a commit of the worktree, in the person's repository, would leave out. Nothing
    /// for two commits.
    pub async fn left_out(&self, repo: &Path) -> Result<Option<LeftOut>, SnapshotError> {
        match self {
            Self::Worktree(snapshot) => left_out(repo, snapshot).await,
            Self::Commits(_) => Ok(None),
        }
    }

    /// The bytes of a changed file on the old or the new side, by its new or its old path. `None`: the
    /// side has no such file, the file has more than `limit` bytes, or it did not change.
    pub async fn blob(
        &self,
        path: &[u8],
        is_old: bool,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let all = self.changes().await?;
        let Some(change) = changes::find(&all, path).map(|index| &all[index]) else {
            return Ok(None);
        };
        let old = change.old_path.as_ref().unwrap_or(&change.path);
        match self {
            Self::Worktree(snapshot) if is_old => {
                committed(snapshot.run(), &snapshot.base, old, limit).await
            }
            Self::Commits(it) if is_old => committed(it.git(), &it.from, old, limit).await,
            Self::Commits(it) => committed(it.git(), &it.to, &change.path, limit).await,
            Self::Worktree(snapshot) => {
                let (tree, path) = (Arc::clone(&snapshot.tree), change.path.clone());
                let read = move || {
                    let range = Range::Bytes { offset: 0, max_bytes: limit };
                    tree.read(&path, range).ok().filter(|piece| piece.next_offset().is_none())
                };
                let piece = blocking(move || Ok::<_, SnapshotError>(read())).await?;
                Ok(piece.map(|piece| piece.content))
            }
        }
    }

    /// The patch of these paths; `None`: it is longer than `limit` bytes. See [`Snapshot::patch`].
    pub async fn patch(
        &mut self,
        paths: &[Vec<u8>],
        below: Option<&str>,
        limit: usize,
    ) -> Result<Option<String>, SnapshotError> {
        match self {
            Self::Worktree(snapshot) => snapshot.patch(paths, below, limit).await,
            Self::Commits(between) => between.patch(paths, below, limit).await,
        }
    }
}

/// A file of a commit; `None`: the commit has no such file, or the file has more than `limit` bytes.
async fn committed(
    git: Git,
    commit: &str,
    path: &[u8],
    limit: usize,
) -> Result<Option<Vec<u8>>, SnapshotError> {
    let object = OsString::from_vec([commit.as_bytes(), b":", path].concat());
    let output = git.output(&["cat-file".into(), "blob".into(), object], limit).await?;
    Ok((output.status.success() && !output.is_cut).then_some(output.stdout))
}

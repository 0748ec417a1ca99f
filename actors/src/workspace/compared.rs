//! Two states of a repository that are compared: a commit with the files of an attempt's worktree
//! as they are now, or a commit with a later one.

use super::between::Between;
use super::changes::Change;
use super::snapshot::{Snapshot, SnapshotError, Source};

/// Which states: the worktree since the merge base with the target branch or since a commit, or
/// what is between two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    SinceMergeBase,
    Since(String),
    Between(String, String),
}

pub enum Compared {
    Worktree(Snapshot),
    Commits(Between),
}

impl Compared {
    pub async fn take(source: &Source, span: &Span) -> Result<Self, SnapshotError> {
        Ok(match span {
            Span::SinceMergeBase => Self::Worktree(Snapshot::take(source).await?),
            Span::Since(from) => {
                let mut snapshot = Snapshot::take_from(source, Some(from)).await?;
                snapshot.base.clone_from(from);
                Self::Worktree(snapshot)
            }
            Span::Between(from, to) => Self::Commits(Between::open(source, from, to).await?),
        })
    }

    /// The commit that is compared with.
    pub fn base(&self) -> &str {
        match self {
            Self::Worktree(snapshot) => &snapshot.base,
            Self::Commits(between) => &between.from,
        }
    }

    /// The commit that is compared; `None`: the worktree is.
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

    /// The patch of these paths; `None` when it is longer than `limit` bytes. See
    /// [`Snapshot::patch`].
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

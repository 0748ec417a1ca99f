//! Commits that other hosts of a board may need, as files of `git bundle`, and which hosts have a
//! repository at its path.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, RepoId};
use crate::refusal::Refusal;

/// A commit with its history, in parts that are kept by the hash of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    pub commit_id: String,
    /// The commit that a repository has to have before; `None`: the history is whole.
    pub needs: Option<String>,
    /// `None`: it has more bytes than are kept.
    pub sha256: Option<String>,
    pub bytes: u64,
}

/// The bundle of a turn's snapshot in a repository of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnBundle {
    /// The repository's name in the attempt.
    pub repo: String,
    #[serde(flatten)]
    pub bundle: Bundle,
}

#[async_trait]
pub trait Bundles {
    /// Keeps a part of a content. Idempotent.
    async fn keep_part(&self, sha256: &str, part: u32, content: &[u8]) -> Result<(), Refusal>;

    /// A part of a content; `None`: there are no more.
    async fn part(&self, sha256: &str, part: u32) -> Result<Option<Vec<u8>>, Refusal>;

    /// The bundles of the newest snapshot of an attempt.
    async fn turn_bundles(&self, attempt: AttemptId) -> Result<Vec<TurnBundle>, Refusal>;

    async fn base_bundle(&self, repo: RepoId, commit: &str) -> Result<Option<Bundle>, Refusal>;

    /// The commits of a repository that have bundles, newest first, at most 20.
    async fn base_commits(&self, repo: RepoId) -> Result<Vec<String>, Refusal>;

    async fn record_base_bundle(&self, repo: RepoId, bundle: &Bundle) -> Result<(), Refusal>;

    /// The hosts that have a repository at its path.
    async fn hosts_with(&self, repo: RepoId) -> Result<Vec<String>, Refusal>;

    /// Records that this host has a repository at its path.
    async fn record_repo_here(&self, repo: RepoId) -> Result<(), Refusal>;

    /// Moves an attempt that is at rest to this host. The hosts that are lost are judged by the
    /// engine's clock. Returns the attempt's new epoch.
    ///
    /// # Errors
    /// It has something to do, or its host is alive and keeps it.
    async fn move_here(&self, attempt: AttemptId, from: &MovedFrom) -> Result<u64, Refusal>;
}

/// Why an attempt may leave its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MovedFrom {
    /// The lease of this host is over.
    Lost(String),
    /// This host is alive, and this daemon's host is fit for what is asked: it has the repository, or
    /// runs attempts.
    Alive(String),
}

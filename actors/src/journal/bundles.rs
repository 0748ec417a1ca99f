//! Commits that other hosts of a board may need, as files of `git bundle`; and which hosts have a
//! repository at its path.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, RepoId};
use crate::plain;
use crate::refusal::Refusal;

/// A commit with its history, as a file of `git bundle` that is kept in parts by the hash of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    #[serde(deserialize_with = "plain::object")]
    pub commit_id: String,
    /// The commit that a repository must have before it can take the bundle; `None`: the history is whole.
    pub needs: Option<String>,
    /// The hash of the file; `None`: it is larger than what is kept.
    pub sha256: Option<String>,
    /// Length of the file.
    pub bytes: u64,
}

/// The bundle of a turn's snapshot in a repository of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnBundle {
    /// The repository's name in the attempt.
    #[serde(deserialize_with = "plain::name")]
    pub repo: String,
    #[serde(flatten)]
    pub bundle: Bundle,
    pub pushed: Pushed,
    /// The name of the remote, once a push to it may have begun.
    pub remote: Option<String>,
}

/// Whether a remote has the snapshot of a turn.
///
/// ```text
///  Due ─a push failed─▶ Failed
///  Due, Failed ─pushed─▶ There
///  Due, Failed, There ─not to be kept─▶ Unwanted ─deleted at the remote─▶ Removed
///                          └─ no push had begun ─────────────────────────▶ Removed
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pushed {
    /// The remote should get it, if one is configured.
    #[default]
    Due,
    /// The remote should get it; a push has failed, and the attempt's log says so.
    Failed,
    /// The remote has it.
    There,
    /// The remote has it, or may have it, and has to remove it.
    Unwanted,
    /// The remote does not have it, and must not get it.
    Removed,
}

/// A snapshot that a remote has to get or to remove.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DuePush {
    pub attempt_id: AttemptId,
    /// The repository's name in the attempt.
    #[serde(deserialize_with = "plain::name")]
    pub repo: String,
    pub turn: u32,
    #[serde(deserialize_with = "plain::object")]
    pub commit_id: String,
    pub pushed: Pushed,
    /// The remote's name, and the URL that was recorded for it.
    pub remote: String,
    pub url: String,
}

/// The rows of bundles and their parts, of pushes, and of moves between hosts.
#[async_trait]
pub trait Bundles {
    /// Keeps the part with this number of the file with this hash. Idempotent.
    async fn keep_part(&self, sha256: &str, part: u32, content: &[u8]) -> Result<(), Refusal>;

    /// A part of a file; `None`: there is no such part, so the one before was the last.
    async fn part(&self, sha256: &str, part: u32) -> Result<Option<Vec<u8>>, Refusal>;

    /// The bundles of the newest snapshot of an attempt.
    async fn turn_bundles(&self, attempt: AttemptId) -> Result<Vec<TurnBundle>, Refusal>;

    /// The snapshots of this host's attempts that the remote of this name should get, and those that any
    /// remote has to remove. With `again` also those for which it failed before.
    async fn due_pushes(&self, remote: Option<&str>, again: bool) -> Result<Vec<DuePush>, Refusal>;

    /// Records how a push ended, and to which remote it goes. `false`: the row has changed since `push` was
    /// read, as a newer snapshot took its place or it is not to be kept.
    async fn record_push(&self, push: &DuePush, pushed: Pushed) -> Result<bool, Refusal>;

    /// The bundle of a commit that attempts began from; `None`: there is none.
    async fn base_bundle(&self, repo: RepoId, commit: &str) -> Result<Option<Bundle>, Refusal>;

    /// The commits of a repository whose bundles are kept, newest first, at most 20.
    async fn base_commits(&self, repo: RepoId) -> Result<Vec<String>, Refusal>;

    /// Records the bundle of a commit that attempts begin from. `is_kept`: the commit that it needs has a
    /// bundle too; else a remote has that commit.
    async fn record_base_bundle(
        &self,
        repo: RepoId,
        bundle: &Bundle,
        is_kept: bool,
    ) -> Result<(), Refusal>;

    /// The hosts that have a repository at its path.
    async fn hosts_with(&self, repo: RepoId) -> Result<Vec<String>, Refusal>;

    /// Records that this host has the repository at its path, and not in a mirror.
    async fn record_repo_here(&self, repo: RepoId) -> Result<(), Refusal>;

    /// Moves an attempt at rest to this host. The database's clock judges which hosts are lost. Returns the
    /// attempt's new epoch.
    ///
    /// # Errors
    /// A turn runs or waits, or the attempt's host is alive and keeps it.
    async fn move_here(&self, attempt: AttemptId, from: &MovedFrom) -> Result<u64, Refusal>;
}

/// Why an attempt may leave its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MovedFrom {
    /// The lease of this host is over.
    Lost(String),
    /// This host is alive, and the one that asks is fit for the call: it has the repository, or runs
    /// attempts.
    Alive(String),
}

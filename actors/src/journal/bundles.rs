//! Commits that other hosts of a board may need, as files of `git bundle`, and which hosts have a
//! repository at its path.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, RepoId};
use crate::plain;
use crate::refusal::Refusal;

/// A commit with its history, in parts that are kept by the hash of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    #[serde(deserialize_with = "plain::object")]
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
    #[serde(deserialize_with = "plain::name")]
    pub repo: String,
    #[serde(flatten)]
    pub bundle: Bundle,
    pub pushed: Pushed,
    /// The name of the remote, once a push to it has begun.
    pub remote: Option<String>,
}

/// Whether a remote has the snapshot of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pushed {
    /// It is to get it, if one is configured.
    #[default]
    Due,
    /// It is still to get it: a push has failed, and the attempt's log says so.
    Failed,
    There,
    /// It has it, or may have it, and is to remove it.
    Unwanted,
    /// It does not have it, and is not to get it.
    Removed,
}

/// A snapshot that a remote is to get or to remove.
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

#[async_trait]
pub trait Bundles {
    /// Keeps a part of a content. Idempotent.
    async fn keep_part(&self, sha256: &str, part: u32, content: &[u8]) -> Result<(), Refusal>;

    /// A part of a content; `None`: there are no more.
    async fn part(&self, sha256: &str, part: u32) -> Result<Option<Vec<u8>>, Refusal>;

    /// The bundles of the newest snapshot of an attempt.
    async fn turn_bundles(&self, attempt: AttemptId) -> Result<Vec<TurnBundle>, Refusal>;

    /// What of this host's attempts is to be pushed to the remote of this name, and what any remote is to
    /// remove; with `again` also what could not be pushed before.
    async fn due_pushes(&self, remote: Option<&str>, again: bool) -> Result<Vec<DuePush>, Refusal>;

    /// Records what becomes of a push, and where it goes. `false`: the snapshot is not the newest one any more, or is not
    /// to be kept now.
    async fn record_push(&self, push: &DuePush, pushed: Pushed) -> Result<bool, Refusal>;

    async fn base_bundle(&self, repo: RepoId, commit: &str) -> Result<Option<Bundle>, Refusal>;

    /// The commits of a repository that have bundles, newest first, at most 20.
    async fn base_commits(&self, repo: RepoId) -> Result<Vec<String>, Refusal>;

    /// `is_kept`: what it needs has a bundle too; else a remote has that.
    async fn record_base_bundle(
        &self,
        repo: RepoId,
        bundle: &Bundle,
        is_kept: bool,
    ) -> Result<(), Refusal>;

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

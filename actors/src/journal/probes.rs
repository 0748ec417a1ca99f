//! Which attempts may conflict, and what trial merges of their snapshots gave. For the radar (`radar.rs`).

use async_trait::async_trait;
use serde::Deserialize;

use crate::ids::{AttemptId, RepoId};
use crate::refusal::Refusal;

/// The newest snapshot of an attempt in a repository, and what it has not been merged with on trial yet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ConflictPair {
    /// The repository's path on the board.
    pub repo: String,
    pub repo_id: RepoId,
    /// The attempt's folder under `worktrees/`.
    pub folder: String,
    pub target_branch: String,
    pub attempt_id: AttemptId,
    pub commit_id: String,
    /// The commit since which the work counts, as it was when the snapshot was made.
    pub base_id: String,
    /// The commit of the target branch that this snapshot was merged with before; `None`: with none.
    pub target_commit: Option<String>,
    /// The newest snapshots of later attempts that this one was not merged with, newest first. Only later
    /// ones, so that each pair comes up once.
    pub rivals: Vec<OtherSide>,
}

impl ConflictPair {
    /// All attempts whose snapshots are merged.
    pub fn attempts(&self) -> impl Iterator<Item = AttemptId> {
        self.rivals.iter().map(|rival| rival.attempt_id).chain([self.attempt_id])
    }
}

/// The newest snapshot of another attempt in the same repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OtherSide {
    pub attempt_id: AttemptId,
    pub folder: String,
    pub commit_id: String,
    pub base_id: String,
}

/// An attempt that is in conflict with another one or with its target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InConflict {
    pub attempt_id: AttemptId,
    pub folder: String,
    /// Its task is open, and its work is not merged. If not, what is known of its conflicts is removed.
    pub is_open: bool,
}

/// What the trial merge of two commits gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The repository's path on the board.
    pub repo: String,
    /// The other attempt; `None`: the other side is the target branch.
    pub rival: Option<AttemptId>,
    /// The commit of the attempt's snapshot.
    pub commit_id: String,
    /// The commit of the other side.
    pub rival_commit: String,
    /// Empty where there was nothing to merge, or git could not.
    pub tree_id: String,
    /// The files in conflict; empty: there is no conflict.
    pub paths: Vec<String>,
}

/// The rows of trial merges.
#[async_trait]
pub trait Probes {
    /// The trial merges that are due in the repositories of these attempts, among the attempts of this
    /// host: one row for each attempt and repository with a snapshot, unless its task is over or its work
    /// is merged.
    async fn contests(&self, attempts: &[AttemptId]) -> Result<Vec<ConflictPair>, Refusal>;

    /// This host's attempts of which a conflict is known.
    async fn in_conflict(&self) -> Result<Vec<InConflict>, Refusal>;

    /// Writes the results, unless a newer snapshot has been made since. Attempts whose conflicting files
    /// differ from before get a new revision, which wakes those who wait for a change.
    async fn record_probes(&self, attempt: AttemptId, probes: &[Probe]) -> Result<(), Refusal>;

    /// Removes what is known of these attempts. Others that were in conflict with them get a new revision.
    async fn drop_probes(&self, attempts: &[AttemptId]) -> Result<(), Refusal>;
}

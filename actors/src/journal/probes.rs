//! Which attempts may conflict, and what merges of their snapshots gave.

use async_trait::async_trait;
use serde::Deserialize;

use crate::ids::{AttemptId, RepoId};
use crate::refusal::Refusal;

/// The newest snapshot of an attempt in a repository, and what it has not been merged with yet.
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
    /// Since which the snapshot counted when it was made.
    pub base_id: String,
    /// The commit of the target branch that the snapshot was merged with.
    pub target_commit: Option<String>,
    /// The newest snapshots of later attempts that it was not merged with, newest first.
    pub rivals: Vec<OtherSide>,
}

impl ConflictPair {
    /// Those whose snapshots are merged.
    pub fn attempts(&self) -> impl Iterator<Item = AttemptId> {
        self.rivals.iter().map(|rival| rival.attempt_id).chain([self.attempt_id])
    }
}

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
    /// Its task is open, and its work is not merged.
    pub is_open: bool,
}

/// What the merge of two commits gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub repo: String,
    /// `None`: the target branch.
    pub rival: Option<AttemptId>,
    pub commit_id: String,
    pub rival_commit: String,
    /// Empty where there was nothing to merge, or git could not.
    pub tree_id: String,
    pub paths: Vec<String>,
}

#[async_trait]
pub trait Probes {
    /// The contests in the repositories of these attempts, among the attempts of this host: one for
    /// each attempt and repository with a snapshot, unless its task is over or its work is merged.
    async fn contests(&self, attempts: &[AttemptId]) -> Result<Vec<ConflictPair>, Refusal>;

    /// This host's attempts that a conflict was found of.
    async fn in_conflict(&self) -> Result<Vec<InConflict>, Refusal>;

    /// Writes what was found, unless a newer snapshot has been made since. Attempts that are in
    /// conflict over other paths than before get a new revision.
    async fn record_probes(&self, attempt: AttemptId, probes: &[Probe]) -> Result<(), Refusal>;

    /// Removes what was found about these attempts. Those that were in conflict with them get a
    /// new revision.
    async fn drop_probes(&self, attempts: &[AttemptId]) -> Result<(), Refusal>;
}

//! Which attempts may be in each other's way, and what merges of their snapshots gave.

use async_trait::async_trait;
use serde::Deserialize;

use crate::ids::AttemptId;
use crate::refusal::Refusal;

/// The newest snapshot of an attempt in a repository, and who else works on that.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Contest {
    /// The repository's path.
    pub repo: String,
    pub target_branch: String,
    pub commit_id: String,
    /// The newest snapshots of the other attempts whose tasks are not over, newest first.
    pub rivals: Vec<Rival>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Rival {
    pub attempt_id: AttemptId,
    pub commit_id: String,
}

/// What the merge of two commits gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub repo: String,
    /// `None`: the target branch.
    pub rival: Option<AttemptId>,
    pub commit_id: String,
    pub rival_commit: String,
    pub tree_id: String,
    pub paths: Vec<String>,
}

#[async_trait]
pub trait Probes {
    /// The contests of an attempt, one for each of its repositories with a snapshot. Of the
    /// rivals, those are left out with which this snapshot was merged before.
    async fn contests(&self, attempt: AttemptId) -> Result<Vec<Contest>, Refusal>;

    /// Writes what was found, save where a newer snapshot has been made since. Attempts that
    /// conflicts appeared for, or went away, get a new revision.
    async fn record_probes(&self, attempt: AttemptId, probes: &[Probe]) -> Result<(), Refusal>;
}

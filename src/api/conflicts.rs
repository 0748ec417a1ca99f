//! Which attempts conflict. Pure.

use crate::api::prelude::*;

// What an attempt's work is in conflict with.
#[apply(output)]
#[derive(Eq)]
pub struct ConflictWith {
    /// The other attempt, a UUID; null for the target branch.
    pub attempt_id: Option<AttemptId>,
    /// The target branch; null for an attempt.
    pub target_branch: Option<String>,
    /// Name of the repository.
    pub repo_name: String,
    /// The first paths in conflict, at most 20, or 60 of all conflicts.
    pub paths: Vec<String>,
    /// How many paths are in conflict.
    pub path_count: u64,
    /// The merged tree, with conflict markers.
    pub tree_id: String,
}

#[derive(Debug, Deserialize)]
pub struct ConflictsParams {
    #[serde(default)]
    pub project_id: Option<ProjectId>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Conflicts {
    /// In an order of merging: first those that merge as they are, one after the other.
    pub attempts: Vec<AttemptConflicts>,
}

/// An attempt whose work is still to be merged, and what its last snapshot does not merge with.
#[derive(Debug, Serialize, Deserialize)]
pub struct AttemptConflicts {
    pub attempt_id: AttemptId,
    pub task_title: String,
    pub project_name: String,
    pub workspace_branch: String,
    /// It merges as it is, after those above it.
    pub is_clean: bool,
    pub conflicts_with: Vec<ConflictWith>,
}

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

/// What `provost/conflicts` takes; without a project, all projects count.
#[derive(Debug, Deserialize)]
pub struct ConflictsParams {
    #[serde(default)]
    pub project_id: Option<ProjectId>,
}

/// What `provost/conflicts` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct Conflicts {
    /// In an order in which they can be merged: first those that merge without a conflict, one after the
    /// other.
    pub attempts: Vec<AttemptConflicts>,
}

/// An attempt whose work is not merged yet, and what its last snapshot conflicts with.
#[derive(Debug, Serialize, Deserialize)]
pub struct AttemptConflicts {
    pub attempt_id: AttemptId,
    pub task_title: String,
    pub project_name: String,
    pub workspace_branch: String,
    /// It merges without a conflict once those above it are merged.
    pub is_clean: bool,
    pub conflicts_with: Vec<ConflictWith>,
}

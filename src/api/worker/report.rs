//! What the answers to reports share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a project is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dashboard {
    /// Tasks that are done; verifications and investigations don't count.
    pub completed_count: u32,
    /// All such tasks but the cancelled ones.
    pub total_count: u32,
    /// The one of the other, to one decimal.
    pub percent_complete: f64,
    /// Tasks of any kind that something stands in the way of.
    pub blocked_count: u32,
    /// Verifications that are not done.
    pub verification_pending_count: u32,
}

/// A task that a report put on the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskMade {
    /// What it is called: TASK-001.
    pub task_id: String,
    /// What is to be done.
    pub title: String,
}

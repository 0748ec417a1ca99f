//! What was reported of a task.

use provost_actors::event::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a task's reports say. Its schema is terse: all tools share one budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reported {
    /// Why a report created the task.
    pub reason: Option<String>,
    /// Newest first: at, tool, by, task_id, status, handles (OBS-001, …), warnings, report (as given), truncated.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub reports: Vec<TaskReport>,
    /// How many there are.
    pub reports_total: u64,
}

/// A report, as it was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    pub at: Timestamp,
    pub tool: String,
    /// The attempt, or the agent outside of attempts.
    pub by: String,
    /// The task reported on: this one, or one that verifies it.
    pub task_id: String,
    /// In the tool's own word.
    pub status: Option<String>,
    /// What was kept of it under a handle.
    pub handles: Vec<String>,
    pub warnings: Vec<String>,
    pub report: Value,
    /// Texts or lists of it are shortened.
    pub truncated: bool,
}

/// The newest report on a task, in brief.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReport {
    /// In the reporting tool's own word.
    pub status: Option<String>,
    pub at: Timestamp,
    pub summary: Option<String>,
    /// Where it contradicts itself, or what the worktree holds.
    pub warnings: Vec<String>,
}

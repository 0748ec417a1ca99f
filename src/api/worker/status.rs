//! `reportTaskStatus`.

use crate::api::args::{Between, Quantity, Text};
use crate::api::worker::late::LateAnswer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const REPORT_TASK_STATUS: &str = "\
Use when: others should know the progress of a task: in_progress, blocked, done, failed or paused.
Required: task_id.
Optional: status, progress_percent, details, metrics, priority, project_id, request_id.
Next: the call that next_action names.
Avoid: calling it for every little step.";

#[apply(input)]
pub struct ReportTaskStatusInput {
    /// TASK-001 or a UUID.
    pub task_id: Text<1, 64>,
    /// in_progress, blocked, done, failed or paused.
    #[serde(default)]
    pub status: TaskProgress,
    /// Progress, 0 to 100.
    pub progress_percent: Option<Between<0, 100>>,
    /// Current state, 600 characters at most.
    pub details: Option<Text<0, 600>>,
    /// Effort so far.
    pub metrics: Option<Metrics>,
    /// 1 (highest) to 3.
    pub priority: Option<Between<1, 3>>,
    /// Project id; by default yours.
    pub project_id: Option<Text<1, 64>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskProgress {
    #[default]
    InProgress,
    Blocked,
    Done,
    Failed,
    Paused,
}

#[apply(input)]
pub struct Metrics {
    /// Tokens of the model.
    pub tokens_used: Option<Between<0, 1_000_000_000_000>>,
    /// Elapsed seconds.
    pub time_seconds: Option<Quantity<0, 1_000_000_000>>,
    /// Percent of coverage gained.
    pub coverage_added: Option<Quantity<-100, 100>>,
}

#[apply(output)]
pub struct ReportTaskStatusOutput {
    /// true.
    pub acknowledged: bool,
    /// continue; get_next_task; await_checks (a failed check reopens the task); null: nothing is ready.
    pub next_action: Option<NextAction>,
    /// Other changes that it caused.
    pub cascaded: Cascaded,
    /// Contradictions with the worktree.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// Answers to your questions since your last call.
    pub answers: Vec<LateAnswer>,
}

/// What a worker does after its report.
#[apply(word)]
pub enum NextAction {
    Continue,
    GetNextTask,
    AwaitChecks,
}

/// What a task that is done brings with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cascaded {
    /// Tickets resolved.
    pub tickets_resolved: u64,
    /// Tasks that nothing blocks any more.
    pub tasks_unblocked: u64,
}

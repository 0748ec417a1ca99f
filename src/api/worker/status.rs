//! `reportTaskStatus`.

use crate::api::prelude::*;

/// The description of `reportTaskStatus`, by which a model decides whether to call it.
pub const REPORT_TASK_STATUS: &str = "\
Use when: others should know the progress of a task: in_progress, blocked, done, failed or paused.
Next: the call that next_action names.
Avoid: calling it for every little step.";

#[apply(input)]
pub struct ReportTaskStatusInput {
    pub task_id: Text<1, 64>,
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
    pub project_id: Option<ProjectName>,
}

#[apply(word)]
#[derive(Default)]
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
    pub acknowledged: bool,
    /// continue; get_next_task; await_checks (a failed check reopens the task); null: nothing is ready.
    pub next_action: Option<NextAction>,
    /// Other changes that it caused.
    pub cascaded: Cascaded,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
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
#[apply(camel_output)]
#[derive(Copy, Default, Eq)]
pub struct Cascaded {
    /// Tickets resolved.
    pub tickets_resolved: u64,
    /// Tasks that nothing blocks any more.
    pub tasks_unblocked: u64,
}

//! `reportTaskStatus`: how a task goes, at any time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::late::LateAnswer;
use super::report::Said;
use crate::args::{Between, Quantity, Text};

pub const REPORT_TASK_STATUS: &str = "\
Use when: others should know how a task goes: in_progress, blocked, done, failed or paused.
Required: task_id.
Optional: status, progress_percent, details, metrics, priority, project_id, request_id.
Next: what next_action names.
Avoid: calling it for every little step.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportTaskStatusInput {
    /// TASK-001 or a UUID.
    pub task_id: Text<1, 64>,
    /// in_progress, blocked, done, failed or paused.
    #[serde(default)]
    pub status: TaskProgress,
    /// How far it is, 0 to 100.
    pub progress_percent: Option<Between<0, 100>>,
    /// What goes on, 600 characters at most.
    pub details: Option<Text<0, 600>>,
    /// What it has taken so far.
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

impl TaskProgress {
    pub fn said(self) -> Said {
        match self {
            Self::InProgress => Said::InProgress,
            Self::Blocked => Said::Blocked,
            Self::Done => Said::Done,
            Self::Failed => Said::Failed,
            Self::Paused => Said::Paused,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Tokens of the model.
    pub tokens_used: Option<Between<0, 1_000_000_000_000>>,
    /// Seconds.
    pub time_seconds: Option<Quantity<0, 1_000_000_000>>,
    /// Percent of coverage gained.
    pub coverage_added: Option<Quantity<-100, 100>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportTaskStatusOutput {
    /// true.
    pub acknowledged: bool,
    /// continue; get_next_task; await_checks: they run, and the task comes back if one
    /// fails; null: nothing is ready.
    pub next_action: Option<NextAction>,
    /// What else changed by it.
    pub cascaded: Cascaded,
    /// Where the report speaks against what is there.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

/// What a worker does after its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    Continue,
    GetNextTask,
    AwaitChecks,
}

/// What a task that is done brings with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cascaded {
    /// Tickets that it resolved.
    pub tickets_resolved: u64,
    /// Tasks that nothing stands in the way of any more.
    pub tasks_unblocked: u64,
}

/// What to do after a report, by what waits: checks of this task, or other work.
pub fn next_action(said: Said, checks_run: bool, is_other_ready: bool) -> Option<NextAction> {
    match said {
        Said::InProgress | Said::Partial => Some(NextAction::Continue),
        Said::Done if checks_run => Some(NextAction::AwaitChecks),
        _ => is_other_ready.then_some(NextAction::GetNextTask),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_sent_where_there_is_something_to_do() {
        assert_eq!(next_action(Said::InProgress, false, true), Some(NextAction::Continue));
        assert_eq!(next_action(Said::Done, true, true), Some(NextAction::AwaitChecks));
        assert_eq!(next_action(Said::Done, false, true), Some(NextAction::GetNextTask));
        assert_eq!(next_action(Said::Blocked, false, true), Some(NextAction::GetNextTask));
        assert_eq!(next_action(Said::Failed, false, false), None);
    }
}

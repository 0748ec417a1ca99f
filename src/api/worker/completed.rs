//! `reportTaskCompleted`.

use crate::api::prelude::*;

/// The description of `reportTaskCompleted`, by which a model decides whether to call it.
pub const REPORT_TASK_COMPLETED: &str = "\
Use when: a task ended and a short report is enough: success, partial or failed.
Next: getNextTask; next_task_suggested names the task that it will return.
Avoid: success before the tests pass.";

#[apply(input)]
pub struct ReportTaskCompletedInput {
    pub task_id: Text<1, 64>,
    pub status: CompletedStatus,
    /// What you did, in at most 500 characters.
    pub output_summary: Option<Text<0, 500>>,
    /// Paths of the files that you changed.
    pub files_modified: Option<List<Text<1, 1024>, 0, 1000>>,
    /// Coverage of the tests, 0 to 100.
    pub coverage_percent: Option<Quantity<0, 100>>,
    /// How many tests passed and failed.
    pub test_results: Option<TestResults>,
    /// 1 (highest) to 3.
    pub priority_completed: Option<Between<1, 3>>,
    pub project_id: Option<ProjectName>,
}

#[apply(word)]
pub enum CompletedStatus {
    Success,
    Partial,
    Failed,
}

#[apply(input)]
pub struct TestResults {
    /// How many passed.
    pub passed: Between<0, 1_000_000>,
    /// How many failed.
    pub failed: Between<0, 1_000_000>,
}

#[apply(output)]
pub struct ReportTaskCompletedOutput {
    pub acknowledged: bool,
    /// What getNextTask would return now: TASK-002; null if nothing is ready.
    pub next_task_suggested: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    pub answers: Vec<LateAnswer>,
}

//! `reportTaskDone`.

use crate::api::prelude::*;
use crate::api::worker::report::{Dashboard, TaskMade};

/// The description of `reportTaskDone`, by which a model decides whether to call it.
pub const REPORT_TASK_DONE: &str = "\
Use when: you finished a task, or can't: done, failed, blocked or partial.
Next: getNextTask; nextTaskId names the task that it will return.
Avoid: done before its tests pass; the project's checks run after it.";

#[apply(camel_input)]
pub struct ReportTaskDoneInput {
    pub task_id: Text<1, 64>,
    pub status: DoneStatus,
    /// Why it is not done, and its progress.
    pub status_details: Option<StatusDetails>,
    /// What you did.
    pub implementation_notes: Option<Text<0, 20_000>>,
    /// Paths of the files that you changed.
    pub files_modified: Option<List<Text<1, 1024>, 0, 1000>>,
    /// What the tests said.
    pub testing: Option<Testing>,
    /// Criteria by number, from 0.
    pub acceptance_criteria_verification: Option<BTreeMap<String, Criterion>>,
    /// New tasks that your work requires.
    pub follow_up_tasks: Option<List<FollowUpTask, 0, 50>>,
    /// Notes for others, a sentence each.
    pub observations: Option<List<Text<1, 2000>, 0, 50>>,
    pub project_id: Option<ProjectName>,
}

#[apply(word)]
pub enum DoneStatus {
    Done,
    Failed,
    Blocked,
    Partial,
}

#[apply(camel_input)]
#[derive(Default)]
pub struct StatusDetails {
    /// Progress of a partial one, 0 to 100.
    pub progress_percent: Option<Between<0, 100>>,
    /// What it waits for.
    pub blocked_reason: Option<Text<0, 2000>>,
    /// What went wrong.
    pub failure_reason: Option<Text<0, 2000>>,
    /// What is finished and what is not.
    pub partially_done: Option<Text<0, 2000>>,
}

#[apply(camel_input)]
pub struct Testing {
    /// Whether you added tests.
    pub tests_added: bool,
    /// The file they are in.
    pub test_file_created: Option<Text<1, 1024>>,
    /// Whether all passed.
    pub tests_passed: bool,
    /// How many failed.
    pub tests_failed: Between<0, 1_000_000>,
    /// Coverage, 0 to 100.
    pub test_coverage_percent: Option<Quantity<0, 100>>,
    /// Those that failed.
    pub failed_test_names: Option<List<Text<1, 500>, 0, 1000>>,
    /// Whether the accessibility tests passed.
    pub accessibility_tests_passed: Option<bool>,
}

#[apply(input)]
pub struct Criterion {
    /// What it asks for.
    pub text: Text<1, 2000>,
    pub status: CriterionStatus,
}

#[apply(hyphened_word)]
pub enum CriterionStatus {
    Passed,
    Failed,
    NotApplicable,
}

#[apply(camel_input)]
pub struct FollowUpTask {
    pub title: Text<1, 1000>,
    /// Why.
    pub why: Text<1, 5000>,
    pub estimated_hours: Option<Quantity<0, 100_000>>,
}

#[apply(camel_output)]
pub struct ReportTaskDoneOutput {
    pub success: bool,
    /// The task: TASK-001.
    pub task_id: String,
    pub status: DoneStatus,
    /// Outcome for the task and the board.
    pub message: String,
    /// The task that will check the work against its acceptance criteria.
    pub verification_task_created: Option<VerificationTask>,
    /// The observations, each with its handle.
    pub observations_processed: Option<Vec<ObservationProcessed>>,
    /// What getNextTask would return now.
    pub next_task_id: Option<String>,
    /// A short form of it.
    pub next_task_preview: Option<NextTaskPreview>,
    /// Progress of the project.
    pub dashboard_update: Option<Dashboard>,
    /// The follow-up tasks, in the order given.
    pub follow_up_tasks_created: Option<Vec<TaskMade>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    pub answers: Vec<LateAnswer>,
}

#[apply(camel_output)]
pub struct VerificationTask {
    /// Its handle: TASK-VERIFY-001.
    pub task_id: String,
    /// What it verifies, in a line.
    pub title: String,
    /// What it is to find out.
    pub why: String,
    /// Who does it.
    pub automation_level: String,
}

#[apply(camel_output)]
pub struct ObservationProcessed {
    pub observation_id: String,
    /// The observation.
    pub observation: String,
    /// noted.
    pub status: String,
    /// The follow-up that it suggests.
    pub suggested_follow_up: String,
}

#[apply(output)]
pub struct NextTaskPreview {
    pub title: String,
    pub priority: String,
}

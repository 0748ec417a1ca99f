//! `reportTaskDone`.

use crate::api::args::{Between, List, Quantity, Text};
use crate::api::worker::late::LateAnswer;
use crate::api::worker::report::{Dashboard, TaskMade};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const REPORT_TASK_DONE: &str = "\
Use when: you have done a task, or can't: done, failed, blocked or partial.
Required: taskId, status.
Optional: statusDetails, implementationNotes, filesModified, testing, acceptanceCriteriaVerification, \
followUpTasks, observations, project_id, request_id.
Next: getNextTask; nextTaskId names what it will give.
Avoid: done before its tests pass; the project's checks are run.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportTaskDoneInput {
    /// TASK-001 or a UUID.
    pub task_id: Text<1, 64>,
    /// done, failed, blocked or partial.
    pub status: DoneStatus,
    /// Why it is not done, and how far it is.
    pub status_details: Option<StatusDetails>,
    /// What you did.
    pub implementation_notes: Option<Text<0, 20_000>>,
    /// Files that you changed, by their paths.
    pub files_modified: Option<List<Text<1, 1024>, 0, 1000>>,
    /// What the tests said.
    pub testing: Option<Testing>,
    /// Criteria by number, from 0.
    pub acceptance_criteria_verification: Option<BTreeMap<String, Criterion>>,
    /// Tasks that your work makes necessary.
    pub follow_up_tasks: Option<List<FollowUpTask, 0, 50>>,
    /// What others should know, a sentence each.
    pub observations: Option<List<Text<1, 2000>, 0, 50>>,
    /// Project id; by default yours.
    #[serde(rename = "project_id")]
    pub project_id: Option<Text<1, 64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DoneStatus {
    Done,
    Failed,
    Blocked,
    Partial,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusDetails {
    /// How far a partial one is, 0 to 100.
    pub progress_percent: Option<Between<0, 100>>,
    /// What it waits for.
    pub blocked_reason: Option<Text<0, 2000>>,
    /// What went wrong.
    pub failure_reason: Option<Text<0, 2000>>,
    /// What is there and what is not.
    pub partially_done: Option<Text<0, 2000>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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
    /// Whether those of accessibility passed.
    pub accessibility_tests_passed: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// What it asks for.
    pub text: Text<1, 2000>,
    /// passed, failed or not-applicable.
    pub status: CriterionStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CriterionStatus {
    Passed,
    Failed,
    NotApplicable,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FollowUpTask {
    /// What is to be done, in a line.
    pub title: Text<1, 1000>,
    /// Why.
    pub why: Text<1, 5000>,
    /// In hours.
    pub estimated_hours: Option<Quantity<0, 100_000>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportTaskDoneOutput {
    /// true.
    pub success: bool,
    /// The task: TASK-001.
    pub task_id: String,
    /// As it was reported.
    pub status: DoneStatus,
    /// What became of it, and of the board.
    pub message: String,
    /// The task that will hold the work against its acceptance criteria.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_task_created: Option<VerificationTask>,
    /// The observations, each under its own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observations_processed: Option<Vec<ObservationProcessed>>,
    /// What getNextTask would give now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_task_id: Option<String>,
    /// The same in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_task_preview: Option<NextTaskPreview>,
    /// How far the project is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard_update: Option<Dashboard>,
    /// The follow-up tasks, in the order given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_up_tasks_created: Option<Vec<TaskMade>>,
    /// Where the report speaks against itself, or against what is there.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationTask {
    /// What it is called: TASK-VERIFY-001.
    pub task_id: String,
    /// What it verifies, in a line.
    pub title: String,
    /// What it is to find out.
    pub why: String,
    /// By whom it is done.
    pub automation_level: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservationProcessed {
    /// What it is called: OBS-001.
    pub observation_id: String,
    /// The observation.
    pub observation: String,
    /// noted.
    pub status: String,
    /// What it suggests to do, in its own words.
    pub suggested_follow_up: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextTaskPreview {
    /// What is to be done.
    pub title: String,
    /// critical, high, medium or low.
    pub priority: String,
}

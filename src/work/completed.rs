//! `reportTaskCompleted`: the short form of a report that a task is over.

use provost_actors::refusal::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::late::LateAnswer;
use super::path;
use super::report::Said;
use crate::args::{Between, List, Quantity, Text};

pub const REPORT_TASK_COMPLETED: &str = "\
Use when: a task is over and a line says it all: success, partial or failed.
Required: task_id, status.
Optional: output_summary, files_modified, coverage_percent, test_results, priority_completed, \
project_id, request_id.
Next: getNextTask; next_task_suggested names what it will give.
Avoid: success before the tests pass.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportTaskCompletedInput {
    /// TASK-001 or a UUID.
    pub task_id: Text<1, 64>,
    /// success, partial or failed.
    pub status: CompletedStatus,
    /// What you did, in at most 500 characters.
    pub output_summary: Option<Text<0, 500>>,
    /// Files that you changed, by their paths.
    pub files_modified: Option<List<Text<1, 1024>, 0, 1000>>,
    /// Coverage of the tests, 0 to 100.
    pub coverage_percent: Option<Quantity<0, 100>>,
    /// How many tests passed and failed.
    pub test_results: Option<TestResults>,
    /// 1 (highest) to 3.
    pub priority_completed: Option<Between<1, 3>>,
    /// Project id; by default yours.
    pub project_id: Option<Text<1, 64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompletedStatus {
    Success,
    Partial,
    Failed,
}

impl CompletedStatus {
    pub fn said(self) -> Said {
        match self {
            Self::Success => Said::Done,
            Self::Partial => Said::Partial,
            Self::Failed => Said::Failed,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestResults {
    /// How many passed.
    pub passed: Between<0, 1_000_000>,
    /// How many failed.
    pub failed: Between<0, 1_000_000>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportTaskCompletedOutput {
    /// true.
    pub acknowledged: bool,
    /// What getNextTask would give now: TASK-002; null if nothing is ready.
    pub next_task_suggested: Option<String>,
    /// Where the report speaks against itself, or against what is there.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

impl ReportTaskCompletedInput {
    /// The files that it names as changed.
    pub fn files(&self) -> Vec<&str> {
        self.files_modified.iter().flat_map(|it| it.iter()).map(|it| &**it).collect()
    }

    /// Refuses paths that lead out of the repository.
    pub fn check_paths(&self) -> Result<(), Refusal> {
        path::check_all("files_modified", self.files())
    }

    /// Whether it says that its tests passed.
    pub fn claims_passed(&self) -> bool {
        let results = self.test_results.as_ref();
        results.is_some_and(|results| results.passed.get() > 0 && results.failed.get() == 0)
    }

    /// Where a report of success speaks against itself.
    pub fn contradictions(&self) -> Vec<String> {
        let failed = self.test_results.as_ref().map_or(0, |results| results.failed.get());
        if self.status == CompletedStatus::Success && failed > 0 {
            vec![format!("The task is reported as a success, and {failed} of its tests as failed.")]
        } else {
            Vec::new()
        }
    }
}

//! `reportTaskDone`: a task is done, or why it is not.

use std::collections::BTreeMap;

use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::cut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::brief::Brief;
use super::late::LateAnswer;
use super::path;
use super::report::{Dashboard, Said, TaskMade};
use crate::args::{Between, List, Quantity, Text};

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

impl DoneStatus {
    pub fn said(self) -> Said {
        match self {
            Self::Done => Said::Done,
            Self::Failed => Said::Failed,
            Self::Blocked => Said::Blocked,
            Self::Partial => Said::Partial,
        }
    }
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

impl ReportTaskDoneInput {
    /// The files that it names as changed.
    pub fn files(&self) -> Vec<&str> {
        self.files_modified.iter().flat_map(|it| it.iter()).map(|it| &**it).collect()
    }

    /// What the reporter says of the work, for whoever reads the board.
    pub fn summary(&self) -> Option<&str> {
        let details = self.status_details.as_ref();
        let of_status = match self.status {
            DoneStatus::Done => None,
            DoneStatus::Failed => details.and_then(|it| it.failure_reason.as_deref()),
            DoneStatus::Blocked => details.and_then(|it| it.blocked_reason.as_deref()),
            DoneStatus::Partial => details.and_then(|it| it.partially_done.as_deref()),
        };
        of_status.or(self.implementation_notes.as_deref())
    }

    /// Refuses criteria that are not named by number, and paths that lead out of the
    /// repository.
    pub fn check(&self) -> Result<(), Refusal> {
        let names = self.acceptance_criteria_verification.iter().flat_map(BTreeMap::keys);
        if let Some(name) = names.into_iter().find(|name| name.parse::<u16>().is_err()) {
            let path = format!("acceptanceCriteriaVerification.{}", cut(name.clone(), 60));
            let message = format!("`{path}` is not the number of a criterion: they count from 0.");
            return Err(Refusal::new(Code::InvalidArgument, message)
                .hint("Call reportTaskDone again with \"0\" for the first criterion.")
                .detail("path", path));
        }
        path::check_all("filesModified", self.files())?;
        let test_file = self.testing.as_ref().and_then(|it| it.test_file_created.as_deref());
        test_file.map_or(Ok(()), |file| path::check("testing.testFileCreated", file))
    }

    /// The acceptance criteria that the report speaks of, each with its number.
    pub fn criteria(&self) -> Vec<(usize, &str)> {
        let criteria = self.acceptance_criteria_verification.iter().flatten();
        criteria
            .filter_map(|(number, criterion)| Some((number.parse().ok()?, &*criterion.text)))
            .collect()
    }

    /// Whether it says that its tests passed.
    pub fn claims_passed(&self) -> bool {
        let testing = self.testing.as_ref();
        testing.is_some_and(|testing| testing.tests_passed && testing.tests_failed.get() == 0)
    }

    /// Where a report of a task that is done speaks against itself.
    pub fn contradictions(&self) -> Vec<String> {
        if self.status != DoneStatus::Done {
            return Vec::new();
        }
        let mut contradictions = Vec::new();
        if let Some(testing) = self.testing.as_ref().filter(|_| !self.claims_passed()) {
            let names = testing.failed_test_names.iter().flat_map(|it| it.iter());
            let names = names.map(|name| &**name).collect::<Vec<&str>>().join(", ");
            let names = if names.is_empty() { names } else { format!(" ({names})") };
            let failed = testing.tests_failed.get();
            contradictions.push(format!(
                "The task is reported as done, and its tests as failed: {failed} of them{names}."
            ));
        }
        let criteria = self.acceptance_criteria_verification.iter().flatten();
        for (number, criterion) in criteria.filter(|(_, it)| it.status == CriterionStatus::Failed) {
            let text = &*criterion.text;
            contradictions.push(format!(
                "The task is reported as done, and acceptance criterion {number} as failed: {text}"
            ));
        }
        contradictions
    }
}

impl FollowUpTask {
    /// What its brief holds: the estimate.
    pub fn brief(&self) -> Option<String> {
        let estimated_hours = self.estimated_hours.as_ref()?.number().clone();
        Some(Brief { estimated_hours: Some(estimated_hours), ..Brief::default() }.to_json())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const STATUSES: [DoneStatus; 4] =
        [DoneStatus::Done, DoneStatus::Failed, DoneStatus::Blocked, DoneStatus::Partial];

    fn report(
        status: DoneStatus,
        passed: bool,
        failed: u32,
        criteria: &[&str],
    ) -> ReportTaskDoneInput {
        let criteria = criteria.iter().enumerate();
        let criteria: BTreeMap<_, _> = criteria
            .map(|(n, status)| (n.to_string(), json!({"text": "t", "status": status})))
            .collect();
        serde_json::from_value(json!({
            "taskId": "TASK-001", "status": status, "implementationNotes": "notes",
            "statusDetails": {"blockedReason": "blocked", "failureReason": "failed"},
            "testing": {"testsAdded": true, "testsPassed": passed, "testsFailed": failed},
            "acceptanceCriteriaVerification": criteria,
        }))
        .unwrap()
    }

    #[test]
    fn the_summary_is_the_reason_where_one_is_given() {
        let summaries =
            STATUSES.map(|status| report(status, true, 0, &[]).summary().map(str::to_owned));
        let expected = ["notes", "failed", "blocked", "notes"];
        assert_eq!(summaries, expected.map(|summary| Some(summary.to_owned())));
    }

    proptest! {
        #[test]
        fn only_what_is_called_done_can_speak_against_itself(
            status in proptest::sample::select(STATUSES.to_vec()),
            passed in any::<bool>(),
            failed in 0_u32..3,
            criteria in proptest::collection::vec(
                proptest::sample::select(vec!["passed", "failed", "not-applicable"]), 0..4),
        ) {
            let report = report(status, passed, failed, &criteria);
            let of_tests = usize::from(!passed || failed > 0);
            let of_criteria = criteria.iter().filter(|status| **status == "failed").count();
            let expected = if status == DoneStatus::Done { of_tests + of_criteria } else { 0 };
            prop_assert_eq!(report.contradictions().len(), expected);
            prop_assert_eq!(report.claims_passed(), of_tests == 0);
        }
    }
}

//! `reportTestFailure`: a test fails, and somebody may have to find out why.

use provost_actors::event::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cause::Before;
use super::late::LateAnswer;
use crate::args::{List, Text, Time};

pub const REPORT_TEST_FAILURE: &str = "\
Use when: a test fails that is not simply yours to mend at once.
Required: taskId, testName, testFile, failureDetails, previousStatus, needsInvestigation, actionNeeded.
Optional: context, causePossibility, project_id, request_id.
Next: getNextTask; it gives the investigation first.
Avoid: reporting the same failure twice.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportTestFailureInput {
    /// The task in which it fails: TASK-001 or a UUID.
    pub task_id: Text<1, 64>,
    /// The test's full name.
    pub test_name: Text<1, 500>,
    /// Its file, by its path.
    pub test_file: Text<1, 1024>,
    /// What it said.
    pub failure_details: FailureDetails,
    /// passing_before, never_passed or flaky.
    pub previous_status: PreviousStatus,
    /// What you were doing.
    pub context: Option<Text<0, 5000>>,
    /// What you take for possible causes.
    pub cause_possibility: Option<List<Text<1, 500>, 0, 20>>,
    /// Whether to make a task of it that comes first.
    pub needs_investigation: bool,
    /// What has to be done about it.
    pub action_needed: Text<0, 2000>,
    /// Project id; by default yours.
    #[serde(rename = "project_id")]
    pub project_id: Option<Text<1, 64>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailureDetails {
    /// The error, with its stack trace.
    pub error: Text<1, 20_000>,
    /// The value at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_color: Option<Value>,
    /// The value expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_value: Option<Value>,
    /// The value there was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual_value: Option<Value>,
    /// The assertion that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_assertion: Option<Text<0, 2000>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviousStatus {
    PassingBefore,
    NeverPassed,
    Flaky,
}

impl From<PreviousStatus> for Before {
    fn from(status: PreviousStatus) -> Self {
        match status {
            PreviousStatus::PassingBefore => Self::Passed,
            PreviousStatus::NeverPassed => Self::NeverPassed,
            PreviousStatus::Flaky => Self::Flaky,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportTestFailureOutput {
    /// true.
    pub success: bool,
    /// What the failure is called: FAIL-001.
    pub test_failure_id: String,
    /// The test.
    pub test_name: String,
    /// failure_logged.
    pub status: String,
    /// What the task waits for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocking_task: Option<BlockingTask>,
    /// The task that looks into it; left out when one does already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub investigation_task_created: Option<InvestigationTask>,
    /// Where to look first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspected_root_cause_analysis: Option<RootCause>,
    /// What the board tells its people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard_alert: Option<FailureAlert>,
    /// The alert that waits for a person: TK-001.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_ticket: Option<String>,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockingTask {
    /// The task that has to be done first: TASK-002.
    pub blocking_task_id: String,
    /// The same in a sentence.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvestigationTask {
    /// What it is called: TASK-002.
    pub task_id: String,
    /// What is to be found out.
    pub title: String,
    /// critical.
    pub priority: String,
    /// Whether the task that failed waits for it.
    pub blocker: bool,
    /// All that whoever does it has to know.
    pub details: String,
    /// true.
    pub added_to_queue: bool,
    /// immediate (highest priority).
    pub position: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootCause {
    /// In a sentence or two.
    pub likeliest_cause: String,
    /// What to do about it, in order.
    pub suggested_investigation: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureAlert {
    /// critical.
    #[serde(rename = "type")]
    pub kind: String,
    /// What fails.
    pub message: String,
    /// When, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub timestamp: Timestamp,
    /// Whether it is back after an investigation, or nobody looks into it.
    pub requires_human_attention: bool,
}

impl ReportTestFailureInput {
    /// What the board's people are told of it: of what broke, and of what is looked into.
    pub fn alert(
        &self,
        task: &str,
        is_back: bool,
        is_seen_to: bool,
        timestamp: Timestamp,
    ) -> Option<FailureAlert> {
        let is_news =
            self.needs_investigation || self.previous_status == PreviousStatus::PassingBefore;
        is_news.then(|| FailureAlert {
            kind: "critical".to_owned(),
            message: format!("{} fails in {task}.", &*self.test_name),
            timestamp,
            requires_human_attention: is_back || !is_seen_to,
        })
    }

    /// All that whoever investigates has to know, as Markdown.
    pub fn details(&self, handle: &str, task: &str, cause: &RootCause) -> String {
        let failure = &self.failure_details;
        let mut parts = vec![format!(
            "{handle}: {} in {} fails in {task}.\n\n```\n{}\n```",
            &*self.test_name, &*self.test_file, &*failure.error
        )];
        let values = [
            ("Failed assertion", failure.failed_assertion.as_deref().map(str::to_owned)),
            ("Expected", failure.expected_value.as_ref().map(Value::to_string)),
            ("Actual", failure.actual_value.as_ref().map(Value::to_string)),
            ("Failing value", failure.failing_color.as_ref().map(Value::to_string)),
            ("Context", self.context.as_deref().map(str::to_owned)),
            ("Action needed", Some(self.action_needed.to_string())),
            ("Likeliest cause", Some(cause.likeliest_cause.clone())),
        ];
        let given = values.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let given = given.filter(|(_, value)| !value.is_empty());
        parts.extend(given.map(|(name, value)| format!("{name}: {value}")));
        let steps = cause.suggested_investigation.iter();
        parts.push(steps.map(|step| format!("- {step}")).collect::<Vec<_>>().join("\n"));
        parts.join("\n\n")
    }
}

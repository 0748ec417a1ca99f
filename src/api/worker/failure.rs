//! `reportTestFailure`.

use crate::api::prelude::*;

/// The description of `reportTestFailure`, by which a model decides whether to call it.
pub const REPORT_TEST_FAILURE: &str = "\
Use when: a test fails that you can't simply fix at once.
Next: getNextTask; it returns the investigation first.
Avoid: reporting the same failure twice.";

#[apply(camel_input)]
pub struct ReportTestFailureInput {
    pub task_id: Text<1, 64>,
    /// The test's full name.
    pub test_name: Text<1, 500>,
    /// Path of its file.
    pub test_file: Text<1, 1024>,
    /// What it said.
    pub failure_details: FailureDetails,
    pub previous_status: PreviousStatus,
    /// What you were doing.
    pub context: Option<Text<0, 5000>>,
    /// Possible causes in your view.
    pub cause_possibility: Option<List<Text<1, 500>, 0, 20>>,
    /// Whether to create a high-priority task for it.
    pub needs_investigation: bool,
    /// The action needed.
    pub action_needed: Text<0, 2000>,
    pub project_id: Option<ProjectName>,
}

#[serde_with::skip_serializing_none]
#[apply(camel_input)]
pub struct FailureDetails {
    /// The error with its stack trace.
    pub error: Text<1, 20_000>,
    /// The value at fault.
    pub failing_color: Option<Value>,
    /// The value expected.
    pub expected_value: Option<Value>,
    /// The value there was.
    pub actual_value: Option<Value>,
    /// The assertion that does not hold.
    pub failed_assertion: Option<Text<0, 2000>>,
}

#[apply(word)]
pub enum PreviousStatus {
    PassingBefore,
    NeverPassed,
    Flaky,
}

#[apply(camel_output)]
pub struct ReportTestFailureOutput {
    pub success: bool,
    /// Handle of the failure: FAIL-001.
    pub test_failure_id: String,
    /// The test.
    pub test_name: String,
    /// failure_logged.
    pub status: String,
    /// What the task waits for now.
    pub blocking_task: Option<BlockingTask>,
    /// The task that investigates it; absent if one already does.
    pub investigation_task_created: Option<InvestigationTask>,
    /// Where to look first.
    pub suspected_root_cause_analysis: Option<RootCause>,
    /// The note shown on the board.
    pub dashboard_alert: Option<FailureAlert>,
    pub alert_ticket: Option<String>,
    pub answers: Vec<LateAnswer>,
}

#[apply(camel_output)]
pub struct BlockingTask {
    /// The task that must be done first: TASK-002.
    pub blocking_task_id: String,
    /// The same in a sentence.
    pub message: String,
}

#[apply(camel_output)]
pub struct InvestigationTask {
    pub task_id: String,
    /// The question to investigate, in a line.
    pub title: String,
    /// critical.
    pub priority: String,
    /// Whether the task that failed waits for it.
    pub blocker: bool,
    /// Everything needed to do it.
    pub details: String,
    pub added_to_queue: bool,
    /// immediate (highest priority).
    pub position: String,
}

#[apply(camel_output)]
pub struct FailureAlert {
    /// critical.
    #[serde(rename = "type")]
    pub kind: String,
    /// What fails.
    pub message: String,
    /// When, RFC 3339 UTC.
    pub timestamp: Timestamp,
    /// Whether it came back after an investigation, or has none.
    pub requires_human_attention: bool,
}

#[apply(camel_output)]
pub struct RootCause {
    /// In a sentence or two.
    pub likeliest_cause: String,
    /// Steps to take, in order.
    pub suggested_investigation: Vec<String>,
}

//! What is known about the reports on a task and their consequences, and what the answers to reports share.

use provost_actors::journal::checks::CheckOutcome;
use provost_actors::sandbox::Receipt;

use crate::api::prelude::*;

/// How far a project is.
#[apply(camel_output)]
#[derive(Copy)]
pub struct Dashboard {
    /// Tasks that are done; verifications and investigations don't count.
    pub completed_count: u32,
    /// All such tasks except cancelled ones.
    pub total_count: u32,
    /// Percentage of the two, to one decimal.
    pub percent_complete: f64,
    /// Blocked tasks of any kind.
    pub blocked_count: u32,
    /// Verifications that are not done.
    pub verification_pending_count: u32,
}

/// A task that a report put on the board.
#[apply(camel_output)]
pub struct TaskMade {
    pub task_id: String,
    pub title: String,
}

/// The answer to an earlier question.
#[apply(camel_output)]
pub struct LateAnswer {
    pub question_id: String,
    /// Its text.
    pub question: String,
    pub answer: String,
    /// person, orchestrator, or the executor that was asked.
    pub answered_by: String,
}

/// The receipt of one check, as `get_task` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReceipt {
    /// The name of the check.
    pub name: String,
    /// The command that it ran.
    pub command: String,
    /// The commit that it ran on; with several repositories, `<repo>@<commit>` of each.
    pub commit: String,
    /// Whether that commit contains work that was not committed.
    pub includes_uncommitted: bool,
    pub outcome: CheckOutcome,
    /// The limit that it exceeded, or why it did not run.
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub duration_ms: u64,
    /// The folder with its output.
    pub log: Option<String>,
    /// What confined it; absent if its attempt has no sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Receipt>,
    /// When it ended.
    pub at: Timestamp,
}

/// What the last report that a task is done came to. Its schema is terse: all tools
/// share one budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedReport {
    /// Checks: name, command, commit, outcome (passed, failed, timed_out, not_run), exit_code, log and more.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub receipts: Vec<CheckReceipt>,
    /// What the checks disprove in the report.
    pub contradiction: Option<String>,
    /// empty_diff: nothing was changed.
    #[schemars(with = "Vec<String>")]
    pub flags: Vec<Flag>,
}

/// What is unusual about a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Nothing was changed for the task.
    EmptyDiff,
}

/// What a task's reports say. Its schema is terse: all tools share one budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reported {
    /// Why a report created the task.
    pub reason: Option<String>,
    /// Newest first: at, tool, by, task_id, status, handles (OBS-001, …), warnings, report (as given), truncated.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub reports: Vec<TaskReport>,
    /// How many there are.
    pub reports_total: u64,
}

/// A report, as the worker gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    pub at: Timestamp,
    pub tool: String,
    /// The attempt, or the agent outside of attempts, that reported.
    pub by: String,
    /// The task that was reported on: this one, or one that verifies it.
    pub task_id: String,
    /// The status in the tool's own word.
    pub status: Option<String>,
    /// The handles of the notes and failures that the report contains.
    pub handles: Vec<String>,
    pub warnings: Vec<String>,
    pub report: Value,
    /// Some texts or lists of the report are shortened.
    pub truncated: bool,
}

/// The newest report on a task, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReport {
    /// The status in the reporting tool's own word.
    pub status: Option<String>,
    pub at: Timestamp,
    pub summary: Option<String>,
    /// Where the report contradicts itself, or the content of the worktree.
    pub warnings: Vec<String>,
}

//! What is known of a task's reports, what became of them, and what their answers share.

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

/// The proof of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckReceipt {
    /// The check's name.
    pub name: String,
    /// What it ran.
    pub command: String,
    /// What it ran on; where there are several repositories `<repo>@<commit>` of each.
    pub commit: String,
    /// Whether that holds work that was not committed.
    pub includes_uncommitted: bool,
    pub outcome: CheckOutcome,
    /// The limit that it passed, or why it was not run.
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub duration_ms: u64,
    /// The folder of its output.
    pub log: Option<String>,
    /// What held it, if its attempt has a sandbox.
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

/// What is odd about a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
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

/// A report, as it was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    pub at: Timestamp,
    pub tool: String,
    /// The attempt, or the agent outside of attempts.
    pub by: String,
    /// The task reported on: this one, or one that verifies it.
    pub task_id: String,
    /// In the tool's own word.
    pub status: Option<String>,
    /// What was kept of it under a handle.
    pub handles: Vec<String>,
    pub warnings: Vec<String>,
    pub report: Value,
    /// Texts or lists of it are shortened.
    pub truncated: bool,
}

/// The newest report on a task, in brief.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReport {
    /// In the reporting tool's own word.
    pub status: Option<String>,
    pub at: Timestamp,
    pub summary: Option<String>,
    /// Where it contradicts itself, or what the worktree holds.
    pub warnings: Vec<String>,
}

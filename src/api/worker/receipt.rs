//! What became of a report: its checks and its flags.

use provost_actors::event::Timestamp;
use provost_actors::journal::checks::CheckOutcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

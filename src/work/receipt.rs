//! Receipts: what was run on a task that was reported done, as everybody is told.

use provost_actors::event::Timestamp;
use provost_actors::journal::check::CheckOutcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::Time;

/// The proof of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckReceipt {
    /// The check's name.
    pub name: String,
    /// What it ran.
    pub command: String,
    /// Commit that it ran on; `<repo>@<commit>`, space between, of several repos.
    pub commit: String,
    /// Whether that holds work that was not committed.
    pub includes_uncommitted: bool,
    /// passed, failed, timed_out or not_run.
    #[schemars(with = "String")]
    pub outcome: CheckOutcome,
    /// Limit that it passed, or why it was not run.
    pub reason: Option<String>,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub exit_signal: Option<i32>,
    /// How long it took.
    pub duration_ms: u64,
    /// Folder of its output; `provost checks TASK --log NAME` shows it.
    pub log: Option<String>,
    /// When it ended, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub at: Timestamp,
}

/// What the last report that a task is done came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedReport {
    /// What the project's checks found after the last report of done.
    pub receipts: Vec<CheckReceipt>,
    /// What that report claims and its receipts disprove; null: nothing.
    pub contradiction: Option<String>,
    /// empty_diff: what was reported done changed nothing.
    #[schemars(with = "Vec<String>")]
    pub flags: Vec<Flag>,
}

/// What is odd about a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    EmptyDiff,
}

//! What a page shows of an attempt that no tool answers: its turns, what waits behind them, the
//! receipts of its finishes and checks, its processes, and files as they were.

use provost_actors::event::{ProcessStatus, RunReason, TokenUsage};
use provost_actors::journal::checks::{CheckVerdict, Receipt};
pub use provost_actors::process::process_list::Member;
use provost_actors::workspace::merge::Strategy;

use crate::api::Refusable;
use crate::api::artifacts::ArtifactPath;
use crate::api::finish::{FinishAction, FinishState, FinishedRepo};
use crate::api::prelude::*;

/// Most turns of one page.
pub const TURNS_MAX: usize = 20;

/// Largest file that is given whole, in bytes.
pub const BLOB_MAX: usize = 8 * 1024 * 1024;

/// An attempt's turns and what belongs to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub task_title: String,
    pub task_status: TaskStatus,
    pub project_id: ProjectId,
    pub project_name: String,
    /// Whether more than one host is registered.
    pub has_hosts: bool,
    /// In their order: the last ones, or those before a turn.
    pub turns: Vec<Turn>,
    /// Whether there are turns before the first of these.
    pub has_earlier: bool,
    /// The follow-ups that wait, next one first; the first 50.
    pub waiting: Vec<WaitingPrompt>,
    /// Newest first; the first 20.
    pub finishes: Vec<FinishRecord>,
    /// Newest first; the first 10.
    pub checks: Vec<CheckRecord>,
}

/// A prompt and the processes that it caused.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub number: u32,
    /// Its beginning, if it is long.
    pub prompt: String,
    /// Characters of the whole prompt.
    pub prompt_length: u64,
    /// Whether what it left is kept, so that changes can be compared with it.
    pub has_snapshot: bool,
    /// In the order of their beginning.
    pub processes: Vec<TurnProcess>,
}

impl Turn {
    /// The agent's process: of several, the one that took over.
    pub fn agent(&self) -> Option<&TurnProcess> {
        self.processes.iter().rev().find(|it| it.run_reason == RunReason::CodingAgent)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TurnProcess {
    pub process_id: ProcessId,
    pub run_reason: RunReason,
    pub status: ProcessStatus,
    pub variant: Option<String>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub failure_summary: Option<String>,
    /// The agent's last message; its beginning, if it is long.
    pub final_message: Option<String>,
    pub usage: Option<TokenUsage>,
}

/// A follow-up that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WaitingPrompt {
    pub queue_id: QueueId,
    /// Its beginning, if it is long.
    pub prompt: String,
    pub variant: Option<String>,
    pub queued_at: Timestamp,
}

/// What became of an attempt's work, or is becoming of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishRecord {
    pub finish_id: FinishId,
    pub action: FinishAction,
    pub strategy: Strategy,
    pub state: FinishState,
    /// Why it was refused.
    pub error: Option<String>,
    pub repos: Vec<FinishedRepo>,
    /// The paths that can't be merged.
    pub conflicts: Vec<String>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// A run of the project's checks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CheckRecord {
    /// The finish whose result was checked; `None`: a report that the task is done.
    pub finish_id: Option<FinishId>,
    /// `None` until all checks have been run.
    pub verdict: Option<CheckVerdict>,
    pub receipts: Vec<Receipt>,
    pub planned_at: Timestamp,
}

/// Which side of a comparison a file is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSide {
    Old,
    New,
}

/// A file of what get_attempt_changes compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlobInput {
    pub attempt_id: AttemptId,
    /// <repository>/<path>, as get_attempt_changes gives it.
    pub path: ArtifactPath,
    pub side: FileSide,
    pub from_turn: Option<FromTurn>,
    pub to_turn: Option<ToTurn>,
}

#[async_trait::async_trait]
pub trait TimelineReads: Send + Sync {
    /// The last turns of an attempt, or the last ones before a turn.
    async fn attempt_timeline(
        &self,
        attempt: AttemptId,
        before: Option<u32>,
    ) -> Refusable<Timeline>;

    /// The attempt's living processes, each after its parent.
    async fn attempt_processes(&self, attempt: AttemptId) -> Refusable<Vec<Member>>;

    /// A file's bytes on one side of a comparison; `None`: there is no file, or it is larger
    /// than [`BLOB_MAX`].
    async fn attempt_blob(&self, input: BlobInput) -> Refusable<Option<Vec<u8>>>;
}

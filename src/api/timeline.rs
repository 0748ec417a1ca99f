//! What the page shows of an attempt and no tool answers: its turns, the prompts that wait, its finishes and
//! checks, its processes, and files in earlier versions.

use provost_actors::event::{ProcessStatus, RunReason, TokenUsage};
use provost_actors::journal::checks::{CheckVerdict, Receipt};
pub use provost_actors::process::process_list::Member;
use provost_actors::workspace::merge::Strategy;

use crate::api::Refusable;
use crate::api::artifacts::ArtifactPath;
use crate::api::finish::{FinishAction, FinishState, FinishedRepo};
use crate::api::prelude::*;

/// The most turns of one page.
pub const TURNS_MAX: usize = 20;

/// The largest file that is given as a whole, in bytes: 8 MiB.
pub const BLOB_MAX: usize = 8 * 1024 * 1024;

/// The turns of an attempt, and what belongs to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub task_title: String,
    pub task_status: TaskStatus,
    pub project_id: ProjectId,
    pub project_name: String,
    /// Whether several hosts are registered, so that the page names the attempt's host.
    pub has_hosts: bool,
    /// The last turns, or the last ones before a turn; oldest first.
    pub turns: Vec<Turn>,
    /// Whether there are turns before the first one here.
    pub has_earlier: bool,
    /// The first 50 waiting follow-ups, the next one first.
    pub waiting: Vec<WaitingPrompt>,
    /// The newest 20, newest first.
    pub finishes: Vec<FinishRecord>,
    /// The newest 10, newest first.
    pub checks: Vec<CheckRecord>,
}

/// A prompt and the processes that it caused.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub number: u32,
    /// The whole prompt, or the beginning of a long one.
    pub prompt: String,
    /// The length of the whole prompt, in characters.
    pub prompt_length: u64,
    /// Whether the turn has a snapshot, so that changes can be compared with it.
    pub has_snapshot: bool,
    /// In the order in which they began.
    pub processes: Vec<TurnProcess>,
}

impl Turn {
    /// The process of the agent; if several ran, the last one, which took over from the others.
    pub fn agent(&self) -> Option<&TurnProcess> {
        self.processes.iter().rev().find(|it| it.run_reason == RunReason::CodingAgent)
    }
}

/// A process of a turn: the agent's, or a script's.
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
    /// The agent's last message, or the beginning of a long one.
    pub final_message: Option<String>,
    pub usage: Option<TokenUsage>,
}

/// A follow-up that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WaitingPrompt {
    pub queue_id: QueueId,
    /// The whole prompt, or the beginning of a long one.
    pub prompt: String,
    pub variant: Option<String>,
    pub queued_at: Timestamp,
}

/// A finish of the attempt, ended or open.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishRecord {
    pub finish_id: FinishId,
    pub action: FinishAction,
    pub strategy: Strategy,
    pub state: FinishState,
    /// Why it was refused; `None`: it was not.
    pub error: Option<String>,
    pub repos: Vec<FinishedRepo>,
    /// The paths that could not be merged.
    pub conflicts: Vec<String>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// A run of the project's checks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CheckRecord {
    /// The finish whose result was checked; `None`: a report that the task is done was checked.
    pub finish_id: Option<FinishId>,
    /// `None`: not all checks have run yet.
    pub verdict: Option<CheckVerdict>,
    pub receipts: Vec<Receipt>,
    pub planned_at: Timestamp,
}

/// The side of a comparison that a file is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSide {
    Old,
    New,
}

/// What `provost/blob` takes: a file on one side of what `get_attempt_changes` compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlobInput {
    pub attempt_id: AttemptId,
    /// <repository>/<path>, as get_attempt_changes gives it.
    pub path: ArtifactPath,
    pub side: FileSide,
    pub from_turn: Option<FromTurn>,
    pub to_turn: Option<ToTurn>,
}

/// The reads behind the page of an attempt.
#[async_trait::async_trait]
pub trait TimelineReads: Send + Sync {
    /// The last turns of an attempt, or the last ones before the turn `before`.
    async fn attempt_timeline(
        &self,
        attempt: AttemptId,
        before: Option<u32>,
    ) -> Refusable<Timeline>;

    /// The living processes of the attempt, each one after its parent.
    async fn attempt_processes(&self, attempt: AttemptId) -> Refusable<Vec<Member>>;

    /// The bytes of a file on one side of a comparison; `None`: the file does not exist there, or is larger
    /// than [`BLOB_MAX`].
    async fn attempt_blob(&self, input: BlobInput) -> Refusable<Option<Vec<u8>>>;
}

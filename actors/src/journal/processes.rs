//! The records of an attempt's processes: what runs, and how it ended.

use async_trait::async_trait;
use serde::Deserialize;

use crate::event::{ProcessStatus, RunReason, Timestamp, Usage};
use crate::ids::{AttemptId, ProcessId};
use crate::limits::Applied;
use crate::refusal::Refusal;

use super::{FollowUp, Phase, State, Turnover};

/// One process and the turn it serves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Process {
    pub process_id: ProcessId,
    pub run_reason: RunReason,
    /// From 1, within the attempt.
    pub turn: u32,
    pub prompt: String,
    pub variant: Option<String>,
    /// The executor's own id of the conversation, once it was seen.
    pub executor_session_id: Option<String>,
    pub status: ProcessStatus,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
}

/// A change of an attempt's row and its process's, written at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Taken out of the queue for a slot: it stands as it stood before.
    Unqueued {
        phase: Phase,
        state: State,
        /// Waits again, before all others.
        returned: Option<FollowUp>,
    },
    /// A stop holds the follow-ups, and what was to go on after a limit.
    Held,
    /// Its turn in the queue has come.
    Preparing,
    /// The child has written its `started.json`.
    Running {
        pid: i32,
        start_time: u64,
        boot_id: String,
        /// Those that are set.
        limits: Vec<Applied>,
    },
    Stopping,
    /// `None`: its conversation is lost, the next turn begins a new one.
    ExecutorSession(Option<String>),
    Settled(Outcome, Box<Turnover>),
    /// Nothing of the process is alive and the log holds all it wrote.
    Closed,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `Completed`, `Failed` or `Killed`.
    pub status: ProcessStatus,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Non-empty unless it completed without a stop.
    pub failure_summary: Option<String>,
    /// The last assistant message, at most 16,000 characters.
    pub final_message: Option<String>,
    pub usage: Option<Usage>,
    /// A rate limit ended it, and it is to be resumed.
    pub quota: Option<Quota>,
    pub at: Timestamp,
}

/// The limit that ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// When it is over, if the executor said so.
    pub resume_at: Option<Timestamp>,
    /// The daemon resumes the attempt then.
    pub resumes: bool,
}

/// The changes of attempts and their processes.
#[async_trait]
pub trait Processes {
    /// Writes a change, if the attempt's row is still of this epoch.
    async fn advance(
        &self,
        attempt: AttemptId,
        epoch: u64,
        process: ProcessId,
        change: &Change,
    ) -> Result<(), Refusal>;

    /// Shows readers that an attempt waits for the disk, and why; `None`: no longer. This is
    /// not written down: there may be no room for that.
    fn waits_for_disk(&self, attempt: AttemptId, reason: Option<&str>);
}

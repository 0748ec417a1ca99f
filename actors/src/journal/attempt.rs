//! What is written down of attempts: how one stands, its turns, what changes.

use serde::{Deserialize, Serialize};

use crate::event::{ProcessStatus, RunReason, Timestamp, Usage};
use crate::ids::{AttemptId, ProcessId, ProjectId, QueueId, RepoId, SessionId, TaskId};
use crate::limits::Applied;

use super::Priority;

/// Where an attempt is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for a running slot.
    Queued,
    /// Its worktrees are being made and its process started.
    Preparing,
    Running,
    Stopping,
    /// Nothing has run and nothing is going to without another call.
    Idle,
    /// The latest turn has ended.
    Settled,
}

impl Phase {
    /// Holds a running slot.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Preparing | Self::Running | Self::Stopping)
    }
}

/// How an attempt stands: specification 2's four values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Idle,
    Running,
    Failed,
    Completed,
}

/// A repository within an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRepo {
    pub repo_id: RepoId,
    pub name: String,
    /// The registered repository.
    pub path: String,
    pub target_branch: String,
    /// The commit that the attempt's branch starts from.
    pub base_commit: String,
}

/// An attempt as its owner needs it: enough to bring it back from nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub task_title: String,
    pub project_id: ProjectId,
    pub project_name: String,
    pub priority: Priority,
    /// It answers a question; see `gateway/admission.rs`.
    pub is_answer: bool,
    pub branch: String,
    /// The name of its folder under `worktrees/`.
    pub folder: String,
    pub repos: Vec<AttemptRepo>,
    pub executor: String,
    /// The attempt inside which its start was asked for.
    pub parent: Option<AttemptId>,
    pub session_id: SessionId,
    pub phase: Phase,
    pub state: State,
    /// Counts the starts; every change is conditional on it.
    pub epoch: u64,
    /// How its latest turn that has ended left it; `None` before one has.
    pub ended_as: Option<State>,
    /// The newest process, planned or started.
    pub process: Process,
    /// Older processes of which something may be alive.
    pub leftovers: Vec<Process>,
    /// Follow-ups that wait, the next one first.
    pub waiting: Vec<FollowUp>,
    /// A stop holds them.
    pub held: bool,
}

/// A prompt for a session, and what it is to be run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowUp {
    pub queue_id: QueueId,
    pub prompt: String,
    /// `None`: the variant of the turn before.
    pub variant: Option<String>,
    pub queued_at: Timestamp,
}

/// One process and the turn it serves.
#[derive(Clone, Debug, PartialEq)]
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

/// A turn that has ended, for an agent that does not remember it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    pub turn: u32,
    /// At most 8,000 characters of it.
    pub prompt: String,
    /// At most 8,000 characters of it.
    pub final_message: Option<String>,
    pub status: ProcessStatus,
}

/// What `start_task_attempt` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStarted {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub workspace_branch: String,
    pub session_id: SessionId,
    pub execution_process_id: Option<ProcessId>,
    pub state: State,
    pub phase: Phase,
}

/// What `stop_attempt` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStopped {
    pub attempt_id: AttemptId,
    pub execution_process_id: Option<ProcessId>,
    pub stopped: bool,
    pub state: State,
    pub phase: Phase,
    pub forced: bool,
    /// In the order in which they were sent.
    pub signals: Vec<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Processes that lived on; anything but 0 is a fault.
    pub survivors: u32,
    /// Something of this could not be written down yet; it is as soon as it can be.
    #[serde(default)]
    pub unrecorded: bool,
}

/// What `follow_up` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowUpAction {
    Send,
    Queue,
    Cancel,
}

/// What `follow_up` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedUp {
    pub action: FollowUpAction,
    pub attempt_id: AttemptId,
    pub session_id: SessionId,
    /// The process that runs the prompt, if the call began its turn.
    pub execution_process_id: Option<ProcessId>,
    pub held: bool,
    /// How many wait.
    pub length: usize,
    /// The first of those that wait, their prompts cut.
    pub waiting: Vec<Waiting>,
}

/// A follow-up that waits, to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub queue_id: QueueId,
    pub prompt: String,
    pub queued_at: Timestamp,
}

/// What a step of a session's queue changes: written at once, or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turnover {
    pub added: Option<FollowUp>,
    pub taken: Vec<QueueId>,
    pub held: bool,
    /// The turn that begins by it: a planned process, which also begins the
    /// attempt's next epoch.
    pub begun: Option<Next>,
}

/// A turn that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub process: Process,
    /// It has a running slot; else it waits for one.
    pub has_slot: bool,
}

impl Next {
    /// How the attempt stands once the turn has begun.
    #[must_use]
    pub fn standing(&self) -> (Phase, State) {
        if self.has_slot {
            (Phase::Preparing, State::Running)
        } else {
            (Phase::Queued, State::Idle)
        }
    }
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
    /// Non-empty unless it completed and nobody had stopped it.
    pub failure_summary: Option<String>,
    /// The last assistant message, at most 16,000 characters.
    pub final_message: Option<String>,
    pub usage: Option<Usage>,
    /// A rate limit ended it, and somebody is to resume it.
    pub quota: Option<Quota>,
    pub at: Timestamp,
}

/// The limit that ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// When it is over, if the executor told.
    pub resume_at: Option<Timestamp>,
    /// The attempt goes on by itself then.
    pub resumes: bool,
}

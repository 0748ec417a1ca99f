//! The records of attempts: enough for an owner to bring one back.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{AttemptId, ProcessId, ProjectId, RepoId, SessionId, TaskId};
use crate::refusal::Refusal;

use super::{FollowUp, Key, Once, Priority, Process};

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

/// The state of an attempt: specification 2's four values.
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
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

/// The attempts, whole.
#[async_trait]
pub trait Attempts {
    /// Writes the attempt with its session and planned process, and the answer.
    async fn record_start(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        answer: &AttemptStarted,
    ) -> Result<Once<AttemptStarted>, Refusal>;

    async fn attempt(&self, attempt: AttemptId) -> Result<Option<Attempt>, Refusal>;

    /// The attempts that are queued or active, or whose newest process has not been closed,
    /// oldest first: all that need an owner.
    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal>;

    /// The attempts whose last turn was ended by a limit and that go on by themselves: which
    /// turn that was, and when the limit is over.
    async fn resumable(&self) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal>;
}

//! The records of attempts, with their processes and sessions: enough for an owner to
//! bring an attempt back from nothing.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::{ErrorType, ProcessStatus, RunReason, Timestamp, TokenUsage};
use crate::ids::{
    AttemptId, CommentId, FinishId, ProcessId, ProjectId, QueueId, ReviewId, SessionId, TaskId,
};
use crate::limits::Applied;
use crate::plain;
use crate::refusal::Refusal;
use crate::sandbox::{Held, Receipt};

use super::{AttemptRepo, Finish, Key, Once, Priority};

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
    /// Nothing has run, and nothing will without another call.
    Idle,
    /// The latest turn has ended.
    Settled,
}

/// What an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingOn {
    /// A person's answer, or an orchestrator's.
    Approval,
    /// The work of its executor in the background.
    Background,
    Disk,
    /// Its host drains.
    Host,
    /// The executor's model: no tool runs, and the executor has been silent for 30 s.
    Model,
    /// The end of a rate limit, which ended its last turn.
    Quota,
    /// The setup of another attempt, whose result it can have.
    Setup,
    #[serde(rename = "a running slot")]
    Slot,
    /// The snapshot of its turn, which has ended.
    Snapshot,
}

impl Phase {
    /// Holds a running slot.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Preparing | Self::Running | Self::Stopping)
    }
}

/// The state of an attempt, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Idle,
    Running,
    Failed,
    Completed,
}

/// An attempt, as its owner needs it.
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
    #[serde(deserialize_with = "plain::branch")]
    pub branch: String,
    /// The name of its folder under `worktrees/`.
    #[serde(deserialize_with = "plain::name")]
    pub folder: String,
    pub repos: Vec<AttemptRepo>,
    pub executor: String,
    /// The host that owns it; empty: it waits for one.
    pub host: String,
    /// What its executor asks of that host.
    pub labels: Vec<String>,
    /// In bytes; 0: it is not counted.
    pub memory: u64,
    /// The attempt inside which its start was asked for.
    pub parent: Option<AttemptId>,
    /// It began from there instead of from its target branches.
    pub fork: Option<Fork>,
    pub session_id: SessionId,
    pub phase: Phase,
    pub state: State,
    /// Counts the starts; every change is conditional on it.
    pub epoch: u64,
    /// How its latest ended turn left it; `None` before one has ended.
    pub ended_as: Option<State>,
    pub process: Process,
    /// Older processes of which something may be alive.
    pub leftovers: Vec<Process>,
    /// Follow-ups that wait, the next one first.
    pub waiting: Vec<FollowUp>,
    /// A stop holds the waiting follow-ups.
    pub held: bool,
    /// The finish that is under way.
    pub finish: Option<Finish>,
    /// The finish of another attempt, under way, by which this one's branch gets work.
    pub lends: Option<FinishId>,
    /// The dev server whose end is not on record.
    pub dev_server: Option<ProcessId>,
    /// Its last turn may have no snapshot yet.
    pub snapshot_due: bool,
    /// The most that has held a turn so far; `None`: no turn had a box.
    pub most_held: Option<Held>,
    /// The epoch in which it came to its host; 0: it has always been there.
    pub placed_epoch: u64,
}

impl Attempt {
    /// Whether its newest turn may go on in a session: its own, or, in the first turn of a fork, a
    /// copy of that of the other attempt.
    pub fn may_resume(&self) -> bool {
        let process = &self.process;
        process.executor_session_id.is_some() || self.fork.is_some() && process.turn == 1
    }
}

/// The end of a turn of another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub attempt_id: AttemptId,
    pub turn: u32,
}

/// One process and the turn it serves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Process {
    pub process_id: ProcessId,
    pub run_reason: RunReason,
    pub turn: u32,
    pub prompt: String,
    pub variant: Option<String>,
    /// The follow-up whose prompt it is; `None`: that of the attempt's start.
    #[serde(default)]
    pub queue_id: Option<QueueId>,
    /// The executor's own id of the conversation, once known.
    pub executor_session_id: Option<String>,
    pub status: ProcessStatus,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowUp {
    pub queue_id: QueueId,
    pub prompt: String,
    /// `None`: the variant of the turn before. Answers do not have it.
    #[serde(default, skip_serializing)]
    pub variant: Option<String>,
    pub queued_at: Timestamp,
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
    pub signals: Vec<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Processes that could not be killed.
    pub survivors: u32,
    /// Part of this is not written down yet.
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
    pub length: usize,
    /// The first of those that wait, their prompts cut.
    pub waiting: Vec<FollowUp>,
    /// The review that it sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Submitted>,
}

/// A review that a follow-up carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    pub review_id: ReviewId,
    pub queue_id: QueueId,
    pub submitted_at: Timestamp,
    pub comment_count: usize,
}

/// Comments that become the prompt of one follow-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub review_id: ReviewId,
    /// The follow-up.
    pub queue_id: QueueId,
    pub submitted_at: Timestamp,
    /// What precedes the comments.
    pub message: Option<String>,
    /// The drafts, each with the count of its changes: the prompt was made of them as they were
    /// then.
    pub drafts: Vec<(CommentId, u32)>,
}

impl Review {
    pub fn submitted(&self) -> Submitted {
        Submitted {
            review_id: self.review_id,
            queue_id: self.queue_id,
            submitted_at: self.submitted_at,
            comment_count: self.drafts.len(),
        }
    }
}

/// A turn that has ended, for an agent that does not remember it: at most 8,000 characters of each
/// text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Past {
    pub turn: u32,
    pub prompt: String,
    pub final_message: Option<String>,
    pub status: ProcessStatus,
    /// Its host, if that was lost with it.
    pub lost_host: Option<String>,
}

/// A change of the rows of an attempt and its process, written at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Taken out of the queue for a slot: phase and state are those from before.
    Unqueued {
        phase: Phase,
        state: State,
        /// Waits again, before all others.
        returned: Option<FollowUp>,
    },
    /// A stop holds the follow-ups and the resumption after a limit.
    Held,
    Preparing,
    /// The child has written its `started.json`.
    Running {
        pid: i32,
        start_time: u64,
        boot_id: String,
        /// Those that are set.
        limits: Vec<Applied>,
        /// What holds it; `None`: it has no box.
        sandbox: Option<Receipt>,
    },
    Stopping,
    /// `None`: its conversation is lost, the next turn begins a new one.
    ExecutorSession(Option<String>),
    Settled(Outcome, Box<Turnover>),
    /// Nothing of the process is alive and the log holds all it wrote.
    Closed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `Completed`, `Failed` or `Killed`.
    pub status: ProcessStatus,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub failure_summary: Option<String>,
    /// Of the error that it failed by.
    pub error_type: Option<ErrorType>,
    /// The last assistant message, at most 16,000 characters.
    pub final_message: Option<String>,
    pub usage: Option<TokenUsage>,
    /// A rate limit ended it, and it is to be resumed.
    pub quota: Option<Quota>,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// When it ends, if the executor reported that.
    pub resume_at: Option<Timestamp>,
    /// The daemon resumes the attempt then.
    pub resumes: bool,
}

/// What a step of a session's queue changes: written at once, or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turnover {
    pub added: Option<FollowUp>,
    /// The review that the new follow-up carries, whether it waits or begins.
    pub review: Option<Review>,
    pub taken: Vec<QueueId>,
    pub held: bool,
    /// The turn that it begins, with the attempt's next epoch.
    pub begun: Option<Next>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub process: Process,
    /// It has a running slot; else it waits for one.
    pub has_slot: bool,
}

impl Next {
    /// The attempt's phase and state once the turn has begun.
    pub fn state(&self) -> (Phase, State) {
        if self.has_slot {
            (Phase::Preparing, State::Running)
        } else {
            (Phase::Queued, State::Idle)
        }
    }
}

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

    /// This host's attempts that need an owner, oldest first: queued, active, not closed, or being finished;
    /// with a dev server, or without the snapshot of their last turn.
    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal>;

    /// This host's attempts that resume after a limit: the turn that it ended, and when it ends.
    async fn resumable(&self) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal>;
}

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

    /// Shows readers why an attempt waits for the disk, if it does. Kept in memory only.
    fn waits_for_disk(&self, attempt: AttemptId, reason: Option<&str>);

    /// Notes what the executor of an attempt waits for. Kept in memory only.
    fn waits_for(&self, attempt: AttemptId, what: Option<WaitingOn>);

    /// Shows readers whose setup an attempt waits for, if it does. Kept in memory only.
    fn waits_for_setup(&self, attempt: AttemptId, of: Option<AttemptId>);
}

/// The queues and the past of sessions.
#[async_trait]
pub trait Sessions {
    /// Writes what a follow-up changes, and the answer, if the attempt's row is still of
    /// this epoch and its task is on the board.
    async fn record_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Once<FollowedUp>, Refusal>;

    /// The turns of an attempt that had ended before this process was planned, oldest
    /// first: the first one, and the last of the others, 100 at most.
    async fn past(&self, attempt: AttemptId, before: ProcessId) -> Result<Vec<Past>, Refusal>;

    /// The same of the turns up to the end of one.
    async fn past_until(&self, fork: Fork) -> Result<Vec<Past>, Refusal>;

    /// The executor's own id of the session of a fork's source, if that is as it was at the end
    /// of the turn: no later turn has run, and the executor is this one.
    async fn session_at(&self, fork: Fork, executor: &str) -> Result<Option<String>, Refusal>;
}

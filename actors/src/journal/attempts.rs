//! The records of attempts, with their processes and sessions: enough for an owner to bring an attempt back
//! after its actor or the daemon has died.

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

use super::{AttemptRepo, Finish, Idempotent, Key, Priority};

/// Where an attempt is in its life; `lib.rs` draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for a running slot.
    Queued,
    /// Its worktrees are being made and its process started.
    Preparing,
    Running,
    /// A stop ends the turn: nothing else begins until that is done.
    Stopping,
    /// No turn has run: a stop took the first one from the queue.
    Idle,
    /// The latest turn has ended, and no other has begun.
    Settled,
}

/// What an attempt waits for, as its status shows it. Most are found when the status is read; the owner
/// notes the others by [`Processes::waits_for`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingOn {
    /// A person's answer, or an orchestrator's.
    Approval,
    /// The executor has answered, and its work in the background continues.
    Background,
    /// Space on the disk: its output or its log can't be written.
    Disk,
    /// Its host drains, so that nothing begins there.
    Host,
    /// The executor's model: no tool runs, and the executor has written nothing for 30 s.
    Model,
    /// The end of the rate limit that ended its last turn.
    Quota,
    /// The setup script of another attempt, whose result it can use.
    Setup,
    /// A running slot of its host, or any host.
    #[serde(rename = "a running slot")]
    Slot,
    /// The snapshot of its last turn, which has ended.
    Snapshot,
}

impl Phase {
    /// Whether an attempt in this phase holds a running slot.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Preparing | Self::Running | Self::Stopping)
    }
}

/// The state of an attempt, as clients see it: how its latest turn ended, unless one runs. `Idle`: none
/// runs, and none has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Idle,
    Running,
    /// The latest turn has failed or was killed.
    Failed,
    /// The latest turn has succeeded.
    Completed,
}

/// An attempt, as its owner needs it: read once, and kept up to date by the owner alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Attempt {
    pub attempt_id: AttemptId,
    pub task_id: TaskId,
    pub task_title: String,
    pub project_id: ProjectId,
    pub project_name: String,
    pub priority: Priority,
    /// It answers a question of another attempt: `gateway/admission.rs` has slots of their own for these.
    pub is_answer: bool,
    /// Its own branch, in each of its repositories; without `refs/heads/`. Checked when it is read.
    #[serde(deserialize_with = "plain::branch")]
    pub branch: String,
    /// The name of its folder under `worktrees/`. Checked when it is read, as it becomes a path.
    #[serde(deserialize_with = "plain::name")]
    pub folder: String,
    pub repos: Vec<AttemptRepo>,
    pub executor: String,
    /// The host that has it; empty while it waits for any host.
    pub host: String,
    /// What its executor asks of that host.
    pub labels: Vec<String>,
    /// Bytes that its executor asks for; 0: it asks for none.
    pub memory: u64,
    /// The attempt inside which its start was asked for.
    pub parent: Option<AttemptId>,
    /// The turn from whose end it began, instead of from its target branches.
    pub fork: Option<Fork>,
    pub session_id: SessionId,
    pub phase: Phase,
    pub state: State,
    /// Counts its turns and moves between hosts. Each change names the epoch it was decided in, and has no
    /// effect in another one.
    pub epoch: u64,
    /// How its latest turn that has ended left it; `None` before the first one.
    pub ended_as: Option<State>,
    /// Its newest turn: planned, running or ended.
    pub process: Process,
    /// Processes of earlier turns of which something may be alive, or whose log is not complete.
    pub leftovers: Vec<Process>,
    /// The follow-ups that wait, the next one first.
    pub waiting: Vec<FollowUp>,
    /// A stop holds the waiting follow-ups back, until the next `send` or `queue`.
    pub held: bool,
    /// The finish that is under way.
    pub finish: Option<Finish>,
    /// The finish of another attempt, under way, by which this attempt's branch gets work: it has this one's
    /// worktrees on loan.
    pub lends: Option<FinishId>,
    /// The process of its dev server, as long as that process's end is not on record.
    pub dev_server: Option<ProcessId>,
    /// Its last turn may have no snapshot yet.
    pub snapshot_due: bool,
    /// The strictest sandbox that a turn had so far; `None`: no turn had one.
    pub most_held: Option<Held>,
    /// The epoch in which it was moved to its host; 0: it has always been there. A folder of an earlier
    /// epoch belongs to a former stay.
    pub placed_epoch: u64,
}

impl Attempt {
    /// Whether its newest turn may continue a session of the executor: its own, or, in the first turn of a
    /// fork, a copy of the other attempt's.
    pub fn may_resume(&self) -> bool {
        let process = &self.process;
        process.executor_session_id.is_some() || self.fork.is_some() && process.turn == 1
    }
}

/// The end of a turn of another attempt, from which an attempt began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub attempt_id: AttemptId,
    pub turn: u32,
}

/// One process of the executor, and the turn that it serves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Process {
    pub process_id: ProcessId,
    pub run_reason: RunReason,
    pub turn: u32,
    /// What the executor is given to do.
    pub prompt: String,
    pub variant: Option<String>,
    /// The follow-up whose prompt it has; `None`: the prompt of the attempt's start.
    #[serde(default)]
    pub queue_id: Option<QueueId>,
    /// The executor's own id of the conversation, once it has reported one.
    pub executor_session_id: Option<String>,
    pub status: ProcessStatus,
    /// The leader's exit code, once it has ended by itself …
    pub exit_code: Option<i32>,
    /// … or the signal that killed it.
    pub exit_signal: Option<i32>,
}

/// A prompt that waits for the end of the turns before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowUp {
    pub queue_id: QueueId,
    pub prompt: String,
    /// `None`: the variant of the turn before. Kept, and left out of answers.
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
    /// The process of its first turn; `None` while that waits for a slot.
    pub execution_process_id: Option<ProcessId>,
    pub state: State,
    pub phase: Phase,
}

/// What `stop_attempt` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStopped {
    pub attempt_id: AttemptId,
    pub execution_process_id: Option<ProcessId>,
    /// Whether this stop ended something, or kept it from beginning; `false`: there was nothing to stop.
    pub stopped: bool,
    pub state: State,
    pub phase: Phase,
    /// One of the stops that were answered together was forced.
    pub forced: bool,
    /// What was sent to its processes, in order: `interrupt`, or the names of signals.
    pub signals: Vec<String>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Processes that are alive because they could not be killed.
    pub survivors: u32,
    /// Part of this is not written down yet; the owner keeps trying.
    #[serde(default)]
    pub unrecorded: bool,
}

/// What `follow_up` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowUpAction {
    /// Begins a turn with the prompt; refused while a turn runs or waits.
    Send,
    /// Begins a turn, or waits behind the other follow-ups.
    Queue,
    /// Removes all follow-ups that wait.
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
    /// How many follow-ups wait.
    pub length: usize,
    /// The first of the follow-ups that wait, with their prompts cut.
    pub waiting: Vec<FollowUp>,
    /// The review that the call sent as a follow-up.
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

/// Comments on lines that become the prompt of one follow-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub review_id: ReviewId,
    /// The follow-up.
    pub queue_id: QueueId,
    pub submitted_at: Timestamp,
    /// The person's text that precedes the comments.
    pub message: Option<String>,
    /// The draft comments, each with how often it was changed. The prompt was made of them as they were
    /// then, so a comment that has changed since is not sent by this.
    pub drafts: Vec<(CommentId, u32)>,
}

impl Review {
    /// What the call that sent it answers.
    pub fn submitted(&self) -> Submitted {
        Submitted {
            review_id: self.review_id,
            queue_id: self.queue_id,
            submitted_at: self.submitted_at,
            comment_count: self.drafts.len(),
        }
    }
}

/// A turn that has ended, for the recap that an executor gets which does not remember it. Each text has at
/// most 8,000 characters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Past {
    pub turn: u32,
    pub prompt: String,
    pub final_message: Option<String>,
    pub status: ProcessStatus,
    /// The host, if it was lost while the turn ran.
    pub lost_host: Option<String>,
}

/// A change of the rows of an attempt and its process, in one transaction. The owner decides on it by the
/// pure life cycle of the turn; the store only writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The turn no longer waits for a slot: the attempt gets back this phase and state.
    Unqueued {
        phase: Phase,
        state: State,
        /// The follow-up that the turn was for: it waits again, before all others.
        returned: Option<FollowUp>,
    },
    /// A stop holds back the follow-ups, and the resumption after a limit.
    Held,
    /// The turn has a slot; its worktrees are being made.
    Preparing,
    /// The child has written its `started.json`.
    Running {
        pid: i32,
        start_time: u64,
        boot_id: String,
        /// The limits that are set, and how each is enforced.
        limits: Vec<Applied>,
        /// What its sandbox enforces; `None`: it has none.
        sandbox: Option<Receipt>,
    },
    /// A stop of the turn is on record: if the host is lost now, the attempt does not begin again.
    Stopping,
    /// The executor's own id of the conversation. `None`: the conversation is lost, and the next turn
    /// begins a new one.
    ExecutorSession(Option<String>),
    /// The turn has ended, and the queue has taken its next step.
    Settled(Outcome, Box<Turnover>),
    /// Nothing of the process is alive, and the log has all that it wrote.
    Closed,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `Completed`, `Failed` or `Killed`.
    pub status: ProcessStatus,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// Why it did not complete, in a sentence or two; `None`: it completed.
    pub failure_summary: Option<String>,
    /// The kind of error that it failed by, as the executor reported it.
    pub error_type: Option<ErrorType>,
    /// The last assistant message, at most 16,000 characters.
    pub final_message: Option<String>,
    pub usage: Option<TokenUsage>,
    /// The rate limit that ended it, if the attempt can be resumed afterwards.
    pub quota: Option<Quota>,
    pub at: Timestamp,
}

/// A rate limit that ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// When the limit ends, if the executor reported that.
    pub resume_at: Option<Timestamp>,
    /// The daemon resumes the attempt by itself then; else a client does.
    pub resumes: bool,
}

/// What a step of a session's queue changes, in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turnover {
    /// A follow-up that waits from now on.
    pub added: Option<FollowUp>,
    /// The review that the new follow-up carries, whether it waits or begins.
    pub review: Option<Review>,
    /// Follow-ups that no longer wait: cancelled, or begun as a turn.
    pub taken: Vec<QueueId>,
    /// Whether the follow-ups that wait are held back afterwards.
    pub held: bool,
    /// The turn that begins, in the attempt's next epoch.
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
    /// The phase and state that the attempt has once the turn is written down.
    pub fn state(&self) -> (Phase, State) {
        if self.has_slot {
            (Phase::Preparing, State::Running)
        } else {
            (Phase::Queued, State::Idle)
        }
    }
}

/// The rows of attempts, as their owners read them.
#[async_trait]
pub trait Attempts {
    /// Writes a new attempt with its session and its planned process, and the answer under the key.
    async fn record_start(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        answer: &AttemptStarted,
    ) -> Result<Idempotent<AttemptStarted>, Refusal>;

    /// An attempt of any host; `None`: there is none with this id.
    async fn attempt(&self, attempt: AttemptId) -> Result<Option<Attempt>, Refusal>;

    /// This host's attempts that need an owner, oldest first: queued, active, with a process that is not
    /// closed, being finished, with a dev server, or without the snapshot of their last turn.
    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal>;

    /// This host's attempts that the daemon resumes after a limit: the turn that the limit ended, and when
    /// it ends.
    async fn resumable(&self) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal>;
}

/// The changes of a turn, and what is shown of it without being written.
#[async_trait]
pub trait Processes {
    /// Writes a change, if the attempt's row is still of this epoch.
    ///
    /// # Errors
    /// The row is of another epoch: this owner is not the attempt's any more.
    async fn advance(
        &self,
        attempt: AttemptId,
        epoch: u64,
        process: ProcessId,
        change: &Change,
    ) -> Result<(), Refusal>;

    /// Shows readers why an attempt waits for the disk; `None`: it does not. Kept in memory only.
    fn waits_for_disk(&self, attempt: AttemptId, reason: Option<&str>);

    /// Shows readers what the executor of an attempt waits for; `None`: it works. Kept in memory only.
    fn waits_for(&self, attempt: AttemptId, what: Option<WaitingOn>);

    /// Shows readers for whose setup an attempt waits; `None`: for none. Kept in memory only.
    fn waits_for_setup(&self, attempt: AttemptId, of: Option<AttemptId>);
}

/// The queues of follow-ups, and the past turns of sessions.
#[async_trait]
pub trait Sessions {
    /// Writes what a follow-up changes, and the answer under the key, if the attempt's row is still of this
    /// epoch and its task is on the board.
    async fn record_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Idempotent<FollowedUp>, Refusal>;

    /// The turns of an attempt that had ended before this process was planned, oldest first. Of more than
    /// 100: the first one, and the last of the others.
    async fn past(&self, attempt: AttemptId, before: ProcessId) -> Result<Vec<Past>, Refusal>;

    /// The same, of the turns up to and with this one.
    async fn past_until(&self, fork: Fork) -> Result<Vec<Past>, Refusal>;

    /// The executor's own id of the session of the attempt that a fork begins from. `None` unless the
    /// session is as it was at the end of that turn: no later turn has run, the executor is this one, and
    /// the host is this one.
    async fn session_at(&self, fork: Fork, executor: &str) -> Result<Option<String>, Refusal>;
}

//! What the actors need written down, as plain records and one trait. The
//! store behind it is outside this crate; nothing here touches a database.
//!
//! Every mutation takes the caller's [`Key`], and its implementation does three
//! things in ONE transaction: looks the key up, makes the change, keeps the
//! answer under the key. So a retry finds one effect or none, whatever crashed.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::{ProcessStatus, RunReason, Timestamp, Usage};
use crate::ids::{AttemptId, ProcessId, ProjectId, QueueId, RepoId, SessionId, TaskId};
use crate::refusal::{Code, Refusal};

/// What makes two calls the same call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub tool: &'static str,
    /// Opaque: the client's own id or the bridge's, which can't clash.
    pub request_id: String,
    /// [Hash](crate::payload::hash) of the payload as it was parsed, with the
    /// tool's own defaults. The same words again are always the same call,
    /// whatever has changed since.
    pub payload_hash: String,
    /// Hash of what the payload came to: with the project's defaults too. Other
    /// words are the same call if they come to the same; `None` where a payload
    /// says all by itself, or has not been resolved yet.
    pub resolved_hash: Option<String>,
}

impl Key {
    /// The key of a call that has been resolved to this.
    #[must_use]
    pub fn resolved(self, payload: &impl Serialize) -> Self {
        Self { resolved_hash: Some(crate::payload::hash(payload)), ..self }
    }

    /// Whether a call with these hashes was this one.
    #[must_use]
    pub fn is_of(&self, payload_hash: &str, resolved_hash: Option<&str>) -> bool {
        let resolved = self.resolved_hash.as_deref();
        self.payload_hash == payload_hash || (resolved.is_some() && resolved == resolved_hash)
    }

    /// The refusal of a call whose id was used for another payload.
    #[must_use]
    pub fn conflict(&self) -> Refusal {
        let tool = self.tool;
        Refusal::new(
            Code::IdempotencyConflict,
            format!("this request_id was used for another {tool} call"),
        )
        .hint(format!("Call {tool} again with a new request_id."))
        .detail("path", "request_id")
    }
}

/// The answer to a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    pub value: T,
    /// It was given before; nothing was done this time.
    pub deduplicated: bool,
}

/// What a call is to bring about outside the database: enough to do so when
/// nobody asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case")]
pub enum Intent {
    StopAttempt { attempt_id: AttemptId, force: bool },
}

impl Intent {
    /// The tool that was called.
    #[must_use]
    pub fn tool(&self) -> &'static str {
        match self {
            Self::StopAttempt { .. } => "stop_attempt",
        }
    }
}

/// What [`Journal::begin`] found under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// Nothing: the effect is to be brought about.
    Go,
    /// An intent without an answer: its effect is to be brought about, and may
    /// have been.
    GoAgain,
    /// The answer of the first call.
    Answered(serde_json::Value),
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Low,
    #[default]
    Medium,
    High,
    Critical,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    #[default]
    Todo,
    InProgress,
    InReview,
    Done,
    Cancelled,
}

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

/// A repository to be registered; checked by the caller to be one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewRepo {
    pub name: String,
    /// Absolute path.
    pub path: String,
    pub default_target_branch: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectCreated {
    pub project_id: ProjectId,
    pub repos: Vec<RepoAdded>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoAdded {
    pub repo_id: RepoId,
    pub repo_name: String,
    pub path: String,
    pub default_target_branch: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    pub project_id: ProjectId,
    pub title: String,
    pub description: Option<String>,
    pub priority: Priority,
    pub depends_on: Vec<TaskId>,
}

/// Changes to a task; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskChange {
    pub title: Option<String>,
    pub description: Option<String>,
    pub status: Option<TaskStatus>,
    pub priority: Option<Priority>,
    pub depends_on: Option<Vec<TaskId>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub task_id: TaskId,
    pub project_id: ProjectId,
    pub title: String,
    pub description: Option<String>,
    pub status: TaskStatus,
    pub priority: Priority,
    pub depends_on: Vec<TaskId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A task with its latest attempt: the most recently created one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    pub task: Task,
    pub latest_attempt_id: Option<AttemptId>,
    pub latest_workspace_branch: Option<String>,
    pub latest_session_id: Option<SessionId>,
    pub latest_session_executor: Option<String>,
    pub has_in_progress_attempt: bool,
    pub last_attempt_failed: bool,
}

/// All that starting an attempt of a task depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartContext {
    pub task: Task,
    pub project_name: String,
    pub repos: Vec<Repo>,
    /// Dependencies that are not done.
    pub unmet: Vec<TaskId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repo {
    pub repo_id: RepoId,
    pub name: String,
    pub path: String,
    pub default_target_branch: String,
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
    pub branch: String,
    /// The name of its folder under `worktrees/`.
    pub folder: String,
    pub repos: Vec<AttemptRepo>,
    pub executor: String,
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
    },
    /// A stop holds the follow-ups.
    Held,
    /// Its turn in the queue has come.
    Preparing,
    /// The child has written its `started.json`.
    Running {
        pid: i32,
        start_time: u64,
        boot_id: String,
    },
    Stopping,
    ExecutorSession(String),
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
    /// Non-empty unless completed.
    pub failure_summary: Option<String>,
    /// The last assistant message, at most 16,000 characters.
    pub final_message: Option<String>,
    pub usage: Option<Usage>,
    pub at: Timestamp,
}

/// The durable memory of the actors. Refusals are for the caller: a fault of
/// the store itself comes as `internal` or `storage_full`.
#[async_trait]
pub trait Journal: Send + Sync + 'static {
    async fn create_project(
        &self,
        key: Option<&Key>,
        name: &str,
        repos: &[NewRepo],
    ) -> Result<Answer<ProjectCreated>, Refusal>;

    async fn add_repo(
        &self,
        key: Option<&Key>,
        project: ProjectId,
        repo: &NewRepo,
    ) -> Result<Answer<RepoAdded>, Refusal>;

    async fn create_task(
        &self,
        key: Option<&Key>,
        task: &NewTask,
    ) -> Result<Answer<TaskId>, Refusal>;

    async fn update_task(
        &self,
        key: Option<&Key>,
        task: TaskId,
        change: &TaskChange,
    ) -> Result<Answer<TaskView>, Refusal>;

    async fn delete_task(&self, key: Option<&Key>, task: TaskId)
    -> Result<Answer<TaskId>, Refusal>;

    async fn start_context(&self, task: TaskId) -> Result<StartContext, Refusal>;

    /// The answer kept under the key, if the call was made before.
    async fn recall(&self, key: &Key) -> Result<Option<serde_json::Value>, Refusal>;

    /// Writes the attempt with its session and planned process, and the answer.
    async fn record_start(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        answer: &AttemptStarted,
    ) -> Result<Answer<AttemptStarted>, Refusal>;

    async fn attempt(&self, attempt: AttemptId) -> Result<Option<Attempt>, Refusal>;

    /// Writes what a follow-up changes, and the answer, if the attempt's row is
    /// still of this epoch and its task is on the board.
    async fn record_follow_up(
        &self,
        key: Option<&Key>,
        attempt: &Attempt,
        turnover: &Turnover,
        answer: &FollowedUp,
    ) -> Result<Answer<FollowedUp>, Refusal>;

    /// The attempts that are queued or active, or whose newest process has not
    /// been closed, oldest first: all that need an owner.
    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal>;

    /// Writes a change, if the attempt's row is still of this epoch.
    async fn advance(
        &self,
        attempt: AttemptId,
        epoch: u64,
        process: ProcessId,
        change: &Change,
    ) -> Result<(), Refusal>;

    /// Writes the intent of a call whose effect lies outside the database. One
    /// that is there already is fresh again.
    async fn begin(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal>;

    /// The intents that were begun and not completed, oldest first.
    async fn open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal>;

    /// Keeps the answer of a call that [`begin`](Self::begin) let go.
    async fn complete(&self, key: &Key, answer: serde_json::Value) -> Result<(), Refusal>;

    /// Forgets an intent whose call was refused: a refusal doesn't use up the key.
    async fn abandon(&self, key: &Key) -> Result<(), Refusal>;
}

/// The whole answer kept under a key, if the call was made before.
pub async fn remembered<T: DeserializeOwned>(
    journal: &dyn Journal,
    key: Option<&Key>,
) -> Result<Option<Answer<T>>, Refusal> {
    let Some(key) = key else { return Ok(None) };
    let Some(answer) = journal.recall(key).await? else { return Ok(None) };
    Ok(Some(Answer { value: recalled(answer)?, deduplicated: true }))
}

/// Reads a kept answer back.
pub fn recalled<T: DeserializeOwned>(answer: serde_json::Value) -> Result<T, Refusal> {
    serde_json::from_value(answer)
        .map_err(|error| Refusal::internal(format!("a kept answer can't be read: {error}")))
}

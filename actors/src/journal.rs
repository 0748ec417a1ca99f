//! What the actors need written down, as plain records and one trait. The
//! store behind it is outside this crate; nothing here touches a database.
//!
//! Every mutation takes the caller's [`Key`], and its implementation does three
//! things in ONE transaction: looks the key up, makes the change, keeps the
//! answer under the key. So a retry finds one effect or none, whatever crashed.

mod approval;
mod attempt;
pub mod check;

pub use approval::{Approval, ApprovalStatus, Decision};
pub use attempt::{
    Attempt, AttemptRepo, AttemptStarted, AttemptStopped, Change, FollowUp, FollowUpAction,
    FollowedUp, Next, Outcome, Past, Phase, Process, Quota, State, Turnover, Waiting,
};

pub use check::{CheckRun, CheckVerdict, Receipt};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::ids::{
    ApprovalId, AttemptId, CheckRunId, ProcessId, ProjectId, RepoId, SessionId, TaskId, TaskRef,
};
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

/// What the last report made of a task, where its status does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Done, it is said; its checks run.
    Reported,
    Verified,
    /// Its checks or its verification failed.
    Rework,
    Failed,
    Blocked,
    Paused,
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
    pub depends_on: Vec<TaskRef>,
    /// What is to be known to do it, as JSON.
    pub brief: Option<String>,
}

/// A task of several that are made at once, and may depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// Chosen beforehand, for the others to name.
    pub task_id: TaskId,
    /// What whoever planned it calls it.
    pub name: Option<String>,
    /// Where it was planned, for people to find.
    pub place: String,
    pub task: NewTask,
}

/// A task that was made as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMade {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    pub name: Option<String>,
}

/// Changes to a task; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskChange {
    pub title: Option<String>,
    pub description: Option<String>,
    pub status: Option<TaskStatus>,
    pub priority: Option<Priority>,
    pub depends_on: Option<Vec<TaskRef>>,
    /// As JSON; `{}` takes it away.
    pub brief: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub task_id: TaskId,
    /// What it is called in its project: `TASK-001`.
    #[serde(default)]
    pub handle: String,
    pub project_id: ProjectId,
    pub title: String,
    pub description: Option<String>,
    pub status: TaskStatus,
    pub priority: Priority,
    pub depends_on: Vec<TaskId>,
    /// What is to be known to do it, as JSON.
    #[serde(default)]
    pub brief: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A task with its latest attempt: the most recently created one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    pub task: Task,
    #[serde(default)]
    pub standing: Option<Standing>,
    pub latest_attempt_id: Option<AttemptId>,
    pub latest_workspace_branch: Option<String>,
    pub latest_session_id: Option<SessionId>,
    pub latest_session_executor: Option<String>,
    pub has_in_progress_attempt: bool,
    pub last_attempt_failed: bool,
    /// The newest report on it; not looked up for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_report: Option<LastReport>,
}

/// What a worker said of a task last, in brief.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReport {
    /// In the reporting tool's own word.
    pub status: Option<String>,
    pub at: Timestamp,
    pub summary: Option<String>,
    /// Where it speaks against itself, or against what is there.
    pub warnings: Vec<String>,
}

/// All that starting an attempt of a task depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartContext {
    pub task: Task,
    pub project_name: String,
    pub repos: Vec<Repo>,
    /// The task's brief, for an agent to read.
    pub brief: Option<String>,
    /// Why a report made the task.
    pub reason: Option<String>,
    /// The task is to answer a question.
    pub is_answer: bool,
    /// Dependencies that are not done.
    pub unmet: Vec<Unmet>,
}

/// A task that has to be done first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    pub task_id: TaskId,
    pub handle: String,
    /// Its newest attempt that has not settled.
    pub running: Option<AttemptId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repo {
    pub repo_id: RepoId,
    pub name: String,
    pub path: String,
    pub default_target_branch: String,
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

    /// Makes all of the tasks or none.
    async fn import_tasks(
        &self,
        key: Option<&Key>,
        tasks: &[PlannedTask],
    ) -> Result<Answer<Vec<TaskMade>>, Refusal>;

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

    /// The turns of an attempt that have ended before this process was planned, oldest
    /// first: the first one, and the last of the others, 100 at most.
    async fn past(&self, attempt: AttemptId, before: ProcessId) -> Result<Vec<Past>, Refusal>;

    /// The attempts that are queued or active, or whose newest process has not
    /// been closed, oldest first: all that need an owner.
    async fn unsettled(&self) -> Result<Vec<Attempt>, Refusal>;

    /// Tells readers, until told otherwise, that an attempt waits for the disk, and
    /// why. It is not written down: there may be no room for that.
    fn waits_for_disk(&self, attempt: AttemptId, reason: Option<&str>);

    /// Writes a change, if the attempt's row is still of this epoch.
    async fn advance(
        &self,
        attempt: AttemptId,
        epoch: u64,
        process: ProcessId,
        change: &Change,
    ) -> Result<(), Refusal>;

    /// Writes that an executor asks for a permission. Of one that is there
    /// already, by process and key of the request, it gives what is written.
    async fn ask(&self, approval: &Approval) -> Result<Approval, Refusal>;

    async fn approval(&self, approval: ApprovalId) -> Result<Option<Approval>, Refusal>;

    /// All that a process has asked for, oldest first.
    async fn approvals_of(&self, process: ProcessId) -> Result<Vec<Approval>, Refusal>;

    /// Writes what becomes of an approval that is pending, and the answer. The
    /// same decision again changes nothing; another one is refused.
    async fn decide(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Answer<Approval>, Refusal>;

    /// The attempts whose last turn was ended by a limit, and that are to go on by
    /// themselves: which turn that was, and when.
    async fn resumable(&self) -> Result<Vec<(AttemptId, ProcessId, Timestamp)>, Refusal>;

    /// Writes the intent of a call whose effect lies outside the database. One
    /// that is there already is fresh again.
    async fn begin(&self, key: &Key, intent: &Intent) -> Result<Begun, Refusal>;

    /// The intents that were begun and not completed, oldest first.
    async fn open_intents(&self) -> Result<Vec<(Key, Intent)>, Refusal>;

    /// Keeps the answer of a call that [`begin`](Self::begin) let go.
    async fn complete(&self, key: &Key, answer: serde_json::Value) -> Result<(), Refusal>;

    /// Forgets an intent whose call was refused: a refusal doesn't use up the key.
    async fn abandon(&self, key: &Key) -> Result<(), Refusal>;

    /// The check runs that are not closed, in the order of their reports.
    async fn open_checks(&self) -> Result<Vec<CheckRun>, Refusal>;

    /// Writes the receipt of a run's check. One that is there already stays.
    async fn keep_receipt(&self, run: CheckRunId, receipt: &Receipt) -> Result<(), Refusal>;

    /// Writes what a run comes to, whose receipts are all there, and what that makes
    /// of its task. Again: the same.
    async fn conclude_checks(&self, run: CheckRunId) -> Result<CheckVerdict, Refusal>;

    /// Nothing is left to be done for a run that was concluded.
    async fn close_checks(&self, run: CheckRunId) -> Result<(), Refusal>;
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

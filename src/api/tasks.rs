//! Tasks: what is to be done, and how far it is.

use async_trait::async_trait;
use std::collections::BTreeSet;

use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId, SessionId, TaskId, TaskRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::args::{Description, Title};
use crate::api::args::{Id, Limit, TaskName, Text, Time};
use crate::api::brief::{Brief, GivenBrief};
use crate::api::field_rules::FieldRule;
use crate::api::worker::receipt::CheckedReport;
use crate::api::worker::reported::{LastReport, Reported};
use crate::api::{Key, Once, Refusable, Session};
use provost_actors::journal::Standing;

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    Todo,
    InProgress,
    InReview,
    Done,
    Cancelled,
}

/// How urgent a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Low,
    #[default]
    Medium,
    High,
    Critical,
}

pub const CREATE_TASK: &str = "\
Use when: a piece of work is to be put on a project's board.
Required: project_id, title.
Optional: description, priority, depends_on, brief, request_id.
Next: start_task_attempt with the task_id.
Avoid: retrying without request_id after a timeout, which makes a second task.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTaskInput {
    /// Project the task belongs to, a UUID from list_projects.
    #[schemars(with = "Id")]
    pub project_id: ProjectId,
    /// What is to be done, in a line of 1 to 1000 characters.
    pub title: Title,
    /// All that the agent needs to know; by default title and description are its prompt.
    pub description: Option<Description>,
    /// low, medium, high or critical: the order in which waiting attempts start.
    #[serde(default)]
    pub priority: Priority,
    /// Tasks that must be done before this one is started: UUIDs or handles from list_tasks.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<TaskName>")]
    pub depends_on: BTreeSet<TaskRef>,
    /// What the worker is to know, all of it optional: context, requirements [text],
    /// acceptanceCriteria [text], files {readFrom, writeTo, referencedIn: [path]},
    /// designReferences {…}, estimatedHours, complexityLevel (easy, medium, hard or expert),
    /// skillsRequired [text], planReference {planId, version, affectedSections [text]},
    /// relatedTasks [handle].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brief: Option<GivenBrief>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreateTaskOutput {
    /// Id of the new task, a UUID.
    #[schemars(with = "String")]
    pub task_id: TaskId,
    /// Its name in the project: TASK-001.
    pub handle: String,
}

pub const LIST_TASKS: &str = "\
Use when: you need a project's tasks, each with its latest attempt and session.
Required: project_id.
Optional: status, updated_since, limit, cursor.
Next: get_task or start_task_attempt with a task_id; get_attempt_status with latest_attempt_id.
Avoid: asking for all tasks over and over; filter by status or updated_since.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTasksInput {
    /// Project to list, a UUID from list_projects.
    #[schemars(with = "Id")]
    pub project_id: ProjectId,
    /// Only tasks of this status: todo, inprogress, inreview, done or cancelled.
    pub status: Option<TaskStatus>,
    /// Only tasks changed at or after this time, RFC 3339.
    #[schemars(with = "Option<Time>")]
    pub updated_since: Option<Timestamp>,
    /// Most tasks to return; more than 200 counts as 200.
    #[serde(default)]
    pub limit: Limit<30, 200>,
    /// Older page: the `next_cursor` of the last answer, unchanged.
    pub cursor: Option<Text<1, 512>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListTasksOutput {
    /// The tasks, newest first.
    pub tasks: Vec<TaskSummary>,
    /// Give it as cursor to get the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskSummary {
    /// Id of the task, a UUID.
    #[schemars(with = "String")]
    pub task_id: TaskId,
    /// Its name in the project: TASK-001.
    pub handle: String,
    /// What is to be done.
    pub title: String,
    /// todo, inprogress, inreview, done or cancelled.
    pub status: TaskStatus,
    /// low, medium, high or critical.
    pub priority: Priority,
    /// By its last report: reported, verified, rework, failed, blocked or paused.
    #[schemars(with = "Option<String>")]
    pub standing: Option<Standing>,
    /// When it was created, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub created_at: Timestamp,
    /// When it last changed, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub updated_at: Timestamp,
    /// Its most recently created attempt, a UUID; null before the first.
    #[schemars(with = "Option<String>")]
    pub latest_attempt_id: Option<AttemptId>,
    /// Branch of that attempt.
    pub latest_workspace_branch: Option<String>,
    /// Latest session of that attempt, a UUID; null if it has none yet.
    #[schemars(with = "Option<String>")]
    pub latest_session_id: Option<SessionId>,
    /// Executor of that session.
    pub latest_session_executor: Option<String>,
    /// Whether an attempt is queued or running.
    pub has_in_progress_attempt: bool,
    /// Whether the latest attempt failed.
    pub last_attempt_failed: bool,
}

pub const GET_TASK: &str = "\
Use when: you need one task in full: description, dependencies, what was reported on it.
Required: task_id.
Optional: none.
Next: start_task_attempt or update_task with the task_id.
Avoid: calling it for every task of a list; list_tasks has the statuses.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTaskInput {
    /// Task to read: UUID or handle.
    #[schemars(with = "TaskName")]
    pub task_id: TaskId,
}

/// A task and what its checks found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GetTaskOutput {
    /// The task in full.
    pub task: CheckedTask,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedTask {
    #[serde(flatten)]
    pub task: Task,
    #[serde(flatten)]
    pub report: CheckedReport,
    #[serde(flatten)]
    pub reported: Reported,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskOutput {
    /// The task in full.
    pub task: Task,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    #[serde(flatten)]
    pub summary: TaskSummary,
    /// Id of its project, a UUID.
    #[schemars(with = "String")]
    pub project_id: ProjectId,
    /// All that the agent needs to know; null if there is none.
    pub description: Option<String>,
    /// Tasks that must be done before this one is started, UUIDs.
    #[schemars(with = "Vec<String>")]
    pub depends_on: Vec<TaskId>,
    /// As create_task takes it; null if there is none.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub brief: Option<Brief>,
    /// What a worker said of it last: status (its own word), at (RFC 3339 UTC), summary and
    /// warnings; null before.
    // A schema of its members would not fit into what a list of tools may be long.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub last_report: Option<LastReport>,
}

pub const UPDATE_TASK: &str = "\
Use when: a task's text, status, priority or dependencies change.
Required: task_id and at least one of the optional fields but request_id.
Optional: title, description, status, priority, depends_on, brief, request_id.
Next: list_tasks, to see the board.
Avoid: setting inprogress yourself; start_task_attempt does it.";

pub const UPDATE_RULES: &[FieldRule] =
    &[FieldRule::AnyOf(&["title", "description", "status", "priority", "depends_on", "brief"])];

/// What is absent stays as it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTaskInput {
    /// Task to change: UUID or handle.
    #[schemars(with = "TaskName")]
    pub task_id: TaskId,
    /// New title, 1 to 1000 characters.
    pub title: Option<Title>,
    /// New description; an empty string removes it.
    pub description: Option<Description>,
    /// New status: todo, inprogress, inreview, done or cancelled.
    pub status: Option<TaskStatus>,
    /// New priority: low, medium, high or critical.
    pub priority: Option<Priority>,
    /// All tasks that must be done first, replacing the old list: UUIDs or handles from
    /// list_tasks.
    #[schemars(with = "Option<Vec<TaskName>>")]
    pub depends_on: Option<BTreeSet<TaskRef>>,
    /// New brief in place of the old one, as create_task takes it; {} removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brief: Option<GivenBrief>,
}

pub const DELETE_TASK: &str = "\
Use when: a task is to leave the board for good.
Required: task_id.
Optional: request_id.
Next: list_tasks, to see what is left.
Avoid: deleting what is merely finished (update_task with status done), or while an attempt runs.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteTaskInput {
    /// Task to delete: UUID or handle; its attempts stay readable.
    #[schemars(with = "TaskName")]
    pub task_id: TaskId,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeleteTaskOutput {
    /// Id of the task that is gone, a UUID.
    #[schemars(with = "String")]
    pub deleted_task_id: TaskId,
    /// Its handle.
    pub handle: String,
}

/// What the tools about tasks ask of the daemon.
#[async_trait]
pub trait TaskTools: Send + Sync {
    async fn create_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: CreateTaskInput,
    ) -> Refusable<Once<CreateTaskOutput>>;

    async fn list_tasks(
        &self,
        session: &Session,
        input: ListTasksInput,
    ) -> Refusable<ListTasksOutput>;

    async fn get_task(&self, session: &Session, input: GetTaskInput) -> Refusable<GetTaskOutput>;

    async fn update_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: UpdateTaskInput,
    ) -> Refusable<Once<TaskOutput>>;

    async fn delete_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: DeleteTaskInput,
    ) -> Refusable<Once<DeleteTaskOutput>>;
}

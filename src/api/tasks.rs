//! Tasks: the work, and its progress.

pub use provost_actors::journal::{Priority, ReviewState, TaskStatus};

use crate::api::brief::{Brief, GivenBrief};
use crate::api::prelude::*;
use crate::api::worker::report::{CheckedReport, LastReport, Reported};

/// The description of `create_task`, by which a model decides whether to call it.
pub const CREATE_TASK: &str = "\
Use when: you want to add a task to a project's board.
Next: start_task_attempt with the task_id.
Avoid: retrying without request_id after a timeout, which makes a second task.";

#[apply(input)]
pub struct CreateTaskInput {
    pub project_id: ProjectId,
    /// The work in a line of 1 to 1000 characters.
    pub title: Title,
    /// Everything that the agent needs to know; title and description are its default prompt.
    pub description: Option<Description>,
    /// The order in which waiting attempts start.
    #[serde(default)]
    pub priority: Priority,
    /// Tasks to be done before it: UUIDs or handles.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<TaskName>")]
    pub depends_on: BTreeSet<TaskRef>,
    /// Instructions for the worker, all optional: context, requirements [text],
    /// acceptanceCriteria [text], files {readFrom, writeTo, referencedIn: [path]},
    /// designReferences {…}, estimatedHours, complexityLevel (easy, medium, hard or expert),
    /// skillsRequired [text], planReference {planId, version, affectedSections [text]},
    /// relatedTasks [handle].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brief: Option<GivenBrief>,
}

#[apply(output)]
pub struct CreateTaskOutput {
    pub task_id: TaskId,
    pub handle: String,
}

/// The description of `list_tasks`, by which a model decides whether to call it.
pub const LIST_TASKS: &str = "\
Use when: you need a project's tasks, each with its latest attempt and session.
Next: get_task or start_task_attempt with a task_id; get_attempt_status with latest_attempt_id.
Avoid: listing all tasks repeatedly; filter by status or updated_since.";

#[apply(input)]
pub struct ListTasksInput {
    pub project_id: ProjectId,
    /// Only tasks of this status.
    pub status: Option<TaskStatus>,
    /// Only tasks changed at or after this time, RFC 3339.
    pub updated_since: Option<Time>,
    pub limit: Limit<30, 200>,
    pub cursor: Option<Text<1, 512>>,
}

#[apply(output)]
pub struct ListTasksOutput {
    /// The tasks, newest first.
    pub tasks: Vec<TaskSummary>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

#[apply(output)]
pub struct TaskSummary {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    pub status: TaskStatus,
    pub priority: Priority,
    /// Its review after its last report: reported, verified, rework, failed, blocked or paused.
    #[schemars(with = "Option<String>")]
    pub standing: Option<ReviewState>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Its newest attempt, a UUID; null before the first.
    pub latest_attempt_id: Option<AttemptId>,
    /// Branch of that attempt.
    pub latest_workspace_branch: Option<String>,
    /// Latest session of that attempt, a UUID, or null.
    pub latest_session_id: Option<SessionId>,
    pub latest_session_executor: Option<String>,
    /// Whether an attempt is queued or running.
    pub has_in_progress_attempt: bool,
    /// Whether the latest attempt failed.
    pub last_attempt_failed: bool,
}

/// The description of `get_task`, by which a model decides whether to call it.
pub const GET_TASK: &str = "\
Use when: you need one task in full: description, dependencies, what was reported on it.
Next: start_task_attempt or update_task with the task_id.
Avoid: calling it for every task of a list; list_tasks has the statuses.";

#[apply(input)]
pub struct GetTaskInput {
    pub task_id: TaskId,
}

/// A task and what its checks found.
#[apply(output)]
pub struct GetTaskOutput {
    /// The task in full.
    pub task: CheckedTask,
}

#[apply(output)]
pub struct CheckedTask {
    #[serde(flatten)]
    pub task: Task,
    #[serde(flatten)]
    pub report: CheckedReport,
    #[serde(flatten)]
    pub reported: Reported,
}

#[apply(output)]
pub struct TaskOutput {
    /// The task in full.
    pub task: Task,
}

#[apply(output)]
pub struct Task {
    #[serde(flatten)]
    pub summary: TaskSummary,
    pub project_id: ProjectId,
    /// Everything that the agent needs to know; null if there is none.
    pub description: Option<String>,
    /// Tasks that must be done before this one is started, UUIDs.
    pub depends_on: Vec<TaskId>,
    /// As create_task takes it; null if there is none.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub brief: Option<Brief>,
    /// Last report of a worker: status (its own word), at (RFC 3339 UTC), summary, warnings; null before.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub last_report: Option<LastReport>,
}

/// The description of `update_task`, by which a model decides whether to call it.
pub const UPDATE_TASK: &str = "\
Use when: a task's text, status, priority or dependencies change.
Required: task_id and at least one of the optional fields but request_id.
Next: list_tasks, to see the board.
Avoid: setting inprogress yourself; start_task_attempt does it.";

/// `update_task` needs something to change.
pub const UPDATE_RULES: &[FieldRule] =
    &[FieldRule::AnyOf(&["title", "description", "status", "priority", "depends_on", "brief"])];

/// What is absent stays as it is.
#[apply(input)]
pub struct UpdateTaskInput {
    pub task_id: TaskId,
    /// 1 to 1000 characters.
    pub title: Option<Title>,
    /// New description; an empty string removes it.
    pub description: Option<Description>,
    /// New status.
    pub status: Option<TaskStatus>,
    /// New priority.
    pub priority: Option<Priority>,
    /// The whole new list: UUIDs or handles.
    #[schemars(with = "Option<Vec<TaskName>>")]
    pub depends_on: Option<BTreeSet<TaskRef>>,
    /// New brief, as create_task takes it; {} removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brief: Option<GivenBrief>,
}

/// The description of `delete_task`, by which a model decides whether to call it.
pub const DELETE_TASK: &str = "\
Use when: a task must be deleted from the board.
Next: list_tasks, to see what is left.
Avoid: deleting finished tasks (update_task with status done), or while an attempt runs.";

#[apply(input)]
pub struct DeleteTaskInput {
    /// Task to delete: UUID or handle; its attempts stay readable.
    pub task_id: TaskId,
}

#[apply(output)]
pub struct DeleteTaskOutput {
    /// Id of the deleted task, a UUID.
    pub deleted_task_id: TaskId,
    pub handle: String,
}

tools! {
    TaskTools:
    change create_task(CreateTaskInput) -> CreateTaskOutput;
    read list_tasks(ListTasksInput) -> ListTasksOutput;
    read get_task(GetTaskInput) -> GetTaskOutput;
    change update_task(UpdateTaskInput) -> TaskOutput;
    change delete_task(DeleteTaskInput) -> DeleteTaskOutput;
}

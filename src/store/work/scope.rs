//! The tasks that a worker may name: those of its project, by handle or id.

use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::journal::{Priority, TaskStatus};
use provost_actors::refusal::{Code, Refusal};
use sqlx::FromRow;

use crate::store::{Writing, codec, fault};
use crate::work::{Standing, TaskKind, Worker};

/// A task as a report finds it.
#[derive(Clone, Debug)]
pub struct WorkTask {
    pub task_id: TaskId,
    pub handle: String,
    pub title: String,
    pub status: TaskStatus,
    pub priority: Priority,
    pub kind: TaskKind,
    pub about: Option<TaskId>,
    pub standing: Option<Standing>,
    /// As JSON.
    pub brief: Option<String>,
}

#[derive(FromRow)]
struct Row {
    task_id: String,
    project_id: String,
    handle: String,
    title: String,
    status: String,
    priority: String,
    kind: String,
    about: Option<String>,
    standing: Option<String>,
    brief: Option<String>,
}

impl Row {
    fn task(self) -> Result<WorkTask, Refusal> {
        Ok(WorkTask {
            task_id: codec::id(&self.task_id)?,
            handle: self.handle,
            title: self.title,
            status: codec::enumerated(self.status)?,
            priority: codec::enumerated(self.priority)?,
            kind: codec::enumerated(self.kind)?,
            about: codec::optional_id(self.about.as_deref())?,
            standing: self.standing.map(codec::enumerated).transpose()?,
            brief: self.brief,
        })
    }
}

const COLUMNS: &str = "SELECT task_id, project_id, handle, title, status, priority, kind, about,
    standing, brief FROM tasks WHERE deleted_at IS NULL AND ";

fn not_found(name: &str) -> Refusal {
    Refusal::new(Code::TaskNotFound, format!("there is no task {name} in this project"))
        .hint("Call getNextTask with filter = \"all\", then the tool again.")
        .detail("task_id", name)
}

/// A task of the worker's project, by handle (`TASK-001`) or UUID, in any case.
pub async fn task(writing: Writing<'_>, worker: &Worker, name: &str) -> Result<WorkTask, Refusal> {
    let row: Option<Row> = match name.parse::<TaskId>() {
        Ok(id) => sqlx::query_as(sqlx::AssertSqlSafe(format!("{COLUMNS} task_id = ?1")))
            .bind(id.to_string()),
        Err(_) => sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "{COLUMNS} handle = upper(?1) AND project_id = ?2"
        )))
        .bind(name.trim())
        .bind(worker.project_id.to_string()),
    }
    .fetch_optional(&mut *writing)
    .await
    .map_err(fault)?;
    let row = row.ok_or_else(|| not_found(name))?;
    let project: ProjectId = codec::id(&row.project_id)?;
    if project == worker.project_id {
        return row.task();
    }
    Err(Refusal::new(Code::NotPermitted, format!("task {name} is of another project"))
        .hint("Call getNextTask instead.")
        .detail("task_id", name))
}

/// The same, to be changed by what a worker says of it. An agent inside an attempt
/// changes the attempt's task and those that it has claimed, no others.
pub async fn task_of_theirs(
    writing: Writing<'_>,
    worker: &Worker,
    name: &str,
) -> Result<WorkTask, Refusal> {
    let task = task(writing, worker, name).await?;
    if worker.attempt_id.is_none() || is_theirs(writing, worker, &task).await? {
        return Ok(task);
    }
    let message = format!("task {} is neither this attempt's nor claimed by it", task.handle);
    Err(Refusal::new(Code::NotPermitted, message)
        .hint("Call getNextTask with claim = true instead, and report on what it gives.")
        .detail("task_id", task.handle))
}

/// The same, to be reported on: one that nobody else has in hand.
pub async fn task_in_hand(
    writing: Writing<'_>,
    worker: &Worker,
    name: &str,
) -> Result<WorkTask, Refusal> {
    let task = task(writing, worker, name).await?;
    let holder: Option<String> = sqlx::query_scalar(
        "SELECT agent FROM task_holders WHERE task_id = ?1
           AND NOT EXISTS (SELECT 1 FROM task_holders WHERE task_id = ?1 AND agent = ?2) LIMIT 1",
    )
    .bind(task.task_id.to_string())
    .bind(&worker.agent)
    .fetch_optional(&mut *writing)
    .await
    .map_err(fault)?;
    match holder {
        None => task_of_theirs(writing, worker, name).await,
        Some(agent) => Err(Refusal::new(
            Code::InvalidState,
            format!("task {} is in the hands of {agent}", task.handle),
        )
        .hint("Call getNextTask instead.")
        .detail("task_id", task.handle)
        .detail("held_by", agent)),
    }
}

/// Whether a task is the one of the worker's attempt, or was claimed by it. A claim that
/// a report has ended counts as long as nobody else has the task.
async fn is_theirs(
    reading: Writing<'_>,
    worker: &Worker,
    task: &WorkTask,
) -> Result<bool, Refusal> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM attempts WHERE attempt_id = ?2 AND task_id = ?1)
             OR EXISTS (SELECT 1 FROM leases WHERE task_id = ?1 AND attempt_id = ?2)
             OR EXISTS (SELECT 1 FROM reports WHERE task_id = ?1 AND attempt_id = ?2
                        AND (tool LIKE 'reportTask%' OR tool = 'reportVerificationResult'))",
    )
    .bind(task.task_id.to_string())
    .bind(worker.attempt_id.map(|attempt| attempt.to_string()))
    .fetch_one(reading)
    .await
    .map_err(fault)
}

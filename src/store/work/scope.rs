//! The tasks that a worker may name: those of its project, by handle or id.

use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::journal::{Priority, TaskStatus};
use provost_actors::refusal::{Code, Refusal};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::store::codec::{Columns, Text};
use crate::store::{Result, Writing};
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

/// A task and its project, from a row of `tasks`.
fn read(row: &SqliteRow) -> sqlx::Result<(WorkTask, ProjectId)> {
    let task = WorkTask {
        task_id: row.text("task_id")?,
        handle: row.try_get("handle")?,
        title: row.try_get("title")?,
        status: row.text("status")?,
        priority: row.text("priority")?,
        kind: row.text("kind")?,
        about: row.maybe_text("about")?,
        standing: row.maybe_text("standing")?,
        brief: row.try_get("brief")?,
    };
    Ok((task, row.text("project_id")?))
}

fn not_found(name: &str) -> Refusal {
    Refusal::new(Code::TaskNotFound, format!("there is no task {name} in this project"))
        .hint("Call getNextTask with filter = \"all\", then the tool again.")
        .detail("task_id", name)
}

/// A task of the worker's project, by handle (`TASK-001`) or UUID, in any case.
pub async fn task(writing: Writing<'_>, worker: &Worker, name: &str) -> Result<WorkTask> {
    let found = match name.parse::<TaskId>() {
        Ok(id) => sqlx::query("SELECT * FROM tasks WHERE deleted_at IS NULL AND task_id = ?1")
            .bind(Text(id)),
        Err(_) => sqlx::query(
            "SELECT * FROM tasks
             WHERE deleted_at IS NULL AND handle = upper(?1) AND project_id = ?2",
        )
        .bind(name.trim())
        .bind(Text(worker.project_id)),
    }
    .try_map(|row| read(&row))
    .fetch_optional(writing)
    .await?;
    let (task, project) = found.ok_or_else(|| not_found(name))?;
    if project == worker.project_id {
        return Ok(task);
    }
    Err(Refusal::new(Code::NotPermitted, format!("task {name} is of another project"))
        .hint("Call getNextTask instead.")
        .detail("task_id", name)
        .into())
}

/// The same, to be changed by a report. An agent inside an attempt may change the attempt's
/// task and those that it has claimed, no others.
pub async fn task_of_theirs(writing: Writing<'_>, worker: &Worker, name: &str) -> Result<WorkTask> {
    let task = task(writing, worker, name).await?;
    if worker.attempt_id.is_none() || is_theirs(writing, worker, &task).await? {
        return Ok(task);
    }
    let message = format!("task {} is neither this attempt's nor claimed by it", task.handle);
    Err(Refusal::new(Code::NotPermitted, message)
        .hint("Call getNextTask with claim = true instead, and report on what it gives.")
        .detail("task_id", task.handle)
        .into())
}

/// The same, to be reported on: no other agent may hold it.
pub async fn task_in_hand(writing: Writing<'_>, worker: &Worker, name: &str) -> Result<WorkTask> {
    let task = task(writing, worker, name).await?;
    let holder: Option<String> = sqlx::query_scalar(
        "SELECT agent FROM task_holders WHERE task_id = ?1
           AND NOT EXISTS (SELECT 1 FROM task_holders WHERE task_id = ?1 AND agent = ?2) LIMIT 1",
    )
    .bind(Text(task.task_id))
    .bind(&worker.agent)
    .fetch_optional(&mut *writing)
    .await?;
    match holder {
        None => task_of_theirs(writing, worker, name).await,
        Some(agent) => Err(Refusal::new(
            Code::InvalidState,
            format!("task {} is in the hands of {agent}", task.handle),
        )
        .hint("Call getNextTask instead.")
        .detail("task_id", task.handle)
        .detail("held_by", agent)
        .into()),
    }
}

/// Whether a task is that of the worker's attempt, or was claimed by it. A claim that a
/// report has ended still counts, so that the worker can correct its report.
async fn is_theirs(reading: Writing<'_>, worker: &Worker, task: &WorkTask) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM attempts WHERE attempt_id = ?2 AND task_id = ?1)
             OR EXISTS (SELECT 1 FROM leases WHERE task_id = ?1 AND attempt_id = ?2)
             OR EXISTS (SELECT 1 FROM reports WHERE task_id = ?1 AND attempt_id = ?2
                        AND (tool LIKE 'reportTask%' OR tool = 'reportVerificationResult'))",
    )
    .bind(Text(task.task_id))
    .bind(worker.attempt_id.map(Text))
    .fetch_one(reading)
    .await?)
}

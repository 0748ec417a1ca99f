//! The tasks that a worker may name: those of its project, by handle or id.

use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::journal::{Priority, TaskStatus};
use serde::Deserialize;

use crate::store::{Code, Db, Refusal, Result, Sql};
use crate::work::{ReviewState, TaskKind, Worker};

/// A task as a report finds it.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkTask {
    pub task_id: TaskId,
    project_id: ProjectId,
    pub handle: String,
    pub title: String,
    pub status: TaskStatus,
    pub priority: Priority,
    pub kind: TaskKind,
    /// The task that this one verifies or investigates.
    pub about: Option<TaskId>,
    #[serde(rename = "standing")]
    pub review: Option<ReviewState>,
    pub brief: Option<String>,
}

fn not_found(name: &str) -> Refusal {
    Refusal::new(Code::TaskNotFound, format!("there is no task {name} in this project"))
        .hint("Call getNextTask with filter = \"all\", then the tool again.")
        .detail("task_id", name)
}

/// A task of the worker's project, by handle (`TASK-001`) or UUID, in any case. Refused if there is none, or
/// if it is of another project.
pub async fn task(db: Db<'_>, worker: &Worker, name: &str) -> Result<WorkTask> {
    let sql = "SELECT * FROM tasks WHERE deleted_at IS NULL
           AND (task_id = $1 OR (handle = upper($2) AND project_id = $3))";
    let id = name.parse::<TaskId>().ok();
    let found: Option<WorkTask> = db.find(sql, (id, name.trim(), worker.project_id)).await?;
    let task = found.ok_or_else(|| not_found(name))?;
    if task.project_id == worker.project_id {
        return Ok(task);
    }
    Err(Refusal::new(Code::NotPermitted, format!("task {name} is of another project"))
        .hint("Call getNextTask instead.")
        .detail("task_id", name)
        .into())
}

/// A task that this worker may change by a report. An agent inside an attempt may change the attempt's task
/// and the tasks that it has claimed, no others.
pub async fn changeable_task(db: Db<'_>, worker: &Worker, name: &str) -> Result<WorkTask> {
    let task = task(db, worker, name).await?;
    changeable(db, worker, task).await
}

/// The task, unless this worker may not change it.
async fn changeable(db: Db<'_>, worker: &Worker, task: WorkTask) -> Result<WorkTask> {
    if worker.attempt_id.is_none() || is_theirs(db, worker, &task).await? {
        return Ok(task);
    }
    let message = format!("task {} is neither this attempt's nor claimed by it", task.handle);
    Err(Refusal::new(Code::NotPermitted, message)
        .hint("Call getNextTask with claim = true instead, and report on what it gives.")
        .detail("task_id", task.handle)
        .into())
}

/// A task that this worker may report on: changeable, and not held by another agent.
pub async fn reportable_task(db: Db<'_>, worker: &Worker, name: &str) -> Result<WorkTask> {
    let task = task(db, worker, name).await?;
    let sql = "SELECT agent FROM task_holders WHERE task_id = $1
           AND NOT EXISTS (SELECT 1 FROM task_holders WHERE task_id = $1 AND agent = $2) LIMIT 1";
    let holder: Option<String> = db.find(sql, (task.task_id, &worker.agent)).await?;
    match holder {
        None => changeable(db, worker, task).await,
        Some(agent) => Err(Refusal::new(
            Code::InvalidState,
            format!("task {} is held by {agent}", task.handle),
        )
        .hint("Call getNextTask instead.")
        .detail("task_id", task.handle)
        .detail("held_by", agent)
        .into()),
    }
}

/// Whether a task is that of the worker's attempt, or was claimed by it. A claim that a report has ended
/// still counts, so that the worker can correct its report.
async fn is_theirs(db: Db<'_>, worker: &Worker, task: &WorkTask) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM attempts WHERE attempt_id = $2 AND task_id = $1)
             OR EXISTS (SELECT 1 FROM leases WHERE task_id = $1 AND attempt_id = $2)
             OR EXISTS (SELECT 1 FROM reports WHERE task_id = $1 AND attempt_id = $2
                        AND (tool LIKE 'reportTask%' OR tool = 'reportVerificationResult'))";
    db.one(sql, (task.task_id, worker.attempt_id)).await
}

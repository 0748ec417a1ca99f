//! The open tasks of a project, as the rules of the queue need them. One statement
//! and one row for all of them: a project may have thousands, and each row that
//! crosses from the database's thread costs more than the task in it.

use provost_actors::ids::TaskId;
use provost_actors::journal::{Priority, TaskStatus};
use serde::Deserialize;

use crate::store::codec::Text;
use crate::store::{Result, Writing};
use crate::work::queue::{Hold, Open};
use crate::work::{Standing, TaskKind, Worker};

/// A task in the order of the statement's array; what may be so is 1 or 0.
#[derive(Deserialize)]
struct Row(TaskId, Priority, TaskKind, TaskStatus, Option<Standing>, u8, u8, u8, u8, u8);

/// What a worker sees of its project's queue. Tasks that only put a question to an executor
/// are left out.
pub async fn open(reading: Writing<'_>, worker: &Worker) -> Result<Vec<Open>> {
    let own = own_task(reading, worker).await?;
    let tasks: String = sqlx::query_scalar(
        "SELECT json_group_array(json_array(
             t.task_id, t.priority, t.kind, t.status, t.standing,
             t.task_id IN (SELECT task_id FROM task_holders),
             t.task_id IN (SELECT task_id FROM leases),
             EXISTS (SELECT 1 FROM task_dependencies d JOIN tasks o ON o.task_id = d.depends_on
                     WHERE d.task_id = t.task_id AND o.status <> 'done'
                       AND o.deleted_at IS NULL),
             t.task_id IN (SELECT blocks_task_id FROM tickets
                           WHERE status = 'open' AND blocks_task_id IS NOT NULL),
             coalesce(t.standing, '') = 'rework'
                 AND t.task_id IN (SELECT task_id FROM leases WHERE agent = ?2)))
         FROM tasks t
         WHERE t.project_id = ?1 AND t.status NOT IN ('done', 'cancelled')
           AND t.deleted_at IS NULL AND t.kind <> 'answer'",
    )
    .bind(Text(worker.project_id))
    .bind(&worker.agent)
    .fetch_one(reading)
    .await?;
    let rows: Vec<Row> = serde_json::from_str(&tasks)?;
    let open = rows.into_iter().map(|row| {
        let Row(task_id, priority, kind, status, standing, held, leased, waits, blocked, reworks) =
            row;
        let hold = match (held, leased) {
            _ if own == Some(task_id) || reworks == 1 => Hold::Own,
            (1, _) => Hold::Held,
            (_, 1) => Hold::Left,
            _ => Hold::Nobody,
        };
        let (waits, is_blocked) = (waits == 1, blocked == 1);
        Open { task_id, priority, kind, status, standing, hold, waits, is_blocked }
    });
    Ok(open.collect())
}

/// The task that the worker was started for.
async fn own_task(reading: Writing<'_>, worker: &Worker) -> Result<Option<TaskId>> {
    let Some(attempt) = worker.attempt_id else { return Ok(None) };
    let task: Option<Text<TaskId>> =
        sqlx::query_scalar("SELECT task_id FROM attempts WHERE attempt_id = ?1")
            .bind(Text(attempt))
            .fetch_optional(reading)
            .await?;
    Ok(task.map(|Text(task)| task))
}

//! The open tasks of a project, as the rules of the queue need them. One statement
//! for all of them: a project may have thousands.

use std::collections::HashSet;

use provost_actors::ids::TaskId;
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use crate::store::{Writing, codec, fault};
use crate::work::Worker;
use crate::work::queue::{Hold, Open};

#[derive(FromRow)]
struct Row {
    task_id: String,
    priority: String,
    kind: String,
    status: String,
    standing: Option<String>,
    unmet: u32,
    blockers: u32,
    has_lease: bool,
}

/// What a worker sees of its project's queue. A question that was put to an executor
/// is no worker's business.
pub async fn open(reading: Writing<'_>, worker: &Worker) -> Result<Vec<Open>, Refusal> {
    let own = own_task(reading, worker).await?;
    let held: Vec<String> = sqlx::query_scalar("SELECT task_id FROM task_holders")
        .fetch_all(&mut *reading)
        .await
        .map_err(fault)?;
    let held = held.iter().map(|id| codec::id(id)).collect::<Result<HashSet<TaskId>, _>>()?;
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT t.task_id, t.priority, t.kind, t.status, t.standing,
                (SELECT count(*) FROM task_dependencies d
                 JOIN tasks o ON o.task_id = d.depends_on
                 WHERE d.task_id = t.task_id AND o.status <> 'done' AND o.deleted_at IS NULL
                ) AS unmet,
                (SELECT count(*) FROM tickets k
                 WHERE k.blocks_task_id = t.task_id AND k.status = 'open') AS blockers,
                EXISTS (SELECT 1 FROM leases l WHERE l.task_id = t.task_id) AS has_lease
         FROM tasks t
         WHERE t.project_id = ?1 AND t.status NOT IN ('done', 'cancelled')
           AND t.deleted_at IS NULL AND t.kind <> 'answer'",
    )
    .bind(worker.project_id.to_string())
    .fetch_all(reading)
    .await
    .map_err(fault)?;
    let hold = |task, has_lease| match () {
        () if own == Some(task) => Hold::Own,
        () if held.contains(&task) => Hold::Held,
        () if has_lease => Hold::Left,
        () => Hold::Nobody,
    };
    let open = rows.into_iter().map(|row| {
        let task_id = codec::id(&row.task_id)?;
        Ok(Open {
            task_id,
            priority: codec::enumerated(row.priority)?,
            kind: codec::enumerated(row.kind)?,
            status: codec::enumerated(row.status)?,
            standing: row.standing.map(codec::enumerated).transpose()?,
            hold: hold(task_id, row.has_lease),
            unmet: row.unmet,
            blockers: row.blockers,
        })
    });
    open.collect()
}

/// The task that the worker was started for.
async fn own_task(reading: Writing<'_>, worker: &Worker) -> Result<Option<TaskId>, Refusal> {
    let Some(attempt) = worker.attempt_id else { return Ok(None) };
    let task: Option<String> =
        sqlx::query_scalar("SELECT task_id FROM attempts WHERE attempt_id = ?1")
            .bind(attempt.to_string())
            .fetch_optional(reading)
            .await
            .map_err(fault)?;
    codec::optional_id(task.as_deref())
}

//! The open tasks of a project, as the queue sees them.

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
    hold: String,
    unmet: u32,
    blockers: u32,
}

/// The open tasks of the worker's project.
pub async fn open(writing: Writing<'_>, worker: &Worker) -> Result<Vec<Open>, Refusal> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT t.task_id, t.priority, t.kind, t.status, t.standing,
                CASE WHEN EXISTS (SELECT 1 FROM task_holders h WHERE h.task_id = t.task_id)
                     THEN 'held'
                     WHEN t.status = 'inprogress' THEN 'left' ELSE 'nobody' END AS hold,
                (SELECT count(*) FROM task_dependencies d JOIN tasks u ON u.task_id = d.depends_on
                 WHERE d.task_id = t.task_id AND u.status <> 'done' AND u.deleted_at IS NULL)
                    AS unmet,
                (SELECT count(*) FROM tickets k
                 WHERE k.blocks_task_id = t.task_id AND k.status = 'open') AS blockers
         FROM tasks t
         WHERE t.project_id = ?1 AND t.kind <> 'answer'
           AND t.status NOT IN ('done', 'cancelled') AND t.deleted_at IS NULL",
    )
    .bind(worker.project_id.to_string())
    .fetch_all(writing)
    .await
    .map_err(fault)?;
    rows.into_iter()
        .map(|row| {
            Ok(Open {
                task_id: codec::id(&row.task_id)?,
                priority: codec::enumerated(row.priority)?,
                kind: codec::enumerated(row.kind)?,
                status: codec::enumerated(row.status)?,
                standing: row.standing.map(codec::enumerated).transpose()?,
                hold: match row.hold.as_str() {
                    "held" => Hold::Held,
                    "left" => Hold::Left,
                    _ => Hold::Nobody,
                },
                unmet: row.unmet,
                blockers: row.blockers,
            })
        })
        .collect()
}

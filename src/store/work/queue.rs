//! The open tasks of a project, as the rules of the queue need them. One statement
//! and one row for all of them: a project may have thousands, and each row that
//! crosses from the database's thread costs more than the task in it.

use crate::store::sql::Sql;
use crate::store::{Db, Result};
use crate::work::Worker;
use crate::work::queue::OpenTask;

/// What a worker sees of its project's queue. Tasks that only put a question to an executor
/// are left out. The members of the array are the fields of an [`OpenTask`], in their order.
pub async fn open(db: Db<'_>, worker: &Worker) -> Result<Vec<OpenTask>> {
    let sql = "SELECT json_group_array(json_array(
             t.task_id, t.priority, t.kind, t.status, t.standing,
             CASE WHEN t.task_id = (SELECT task_id FROM attempts WHERE attempt_id = ?3)
                    OR (t.standing = 'rework'
                        AND t.task_id IN (SELECT task_id FROM leases WHERE agent = ?2)) THEN 'own'
                  WHEN t.task_id IN (SELECT task_id FROM task_holders) THEN 'held'
                  WHEN t.task_id IN (SELECT task_id FROM leases) THEN 'abandoned'
                  ELSE 'free' END,
             json(iif(EXISTS (SELECT 1 FROM task_dependencies d
                              JOIN tasks o ON o.task_id = d.depends_on
                              WHERE d.task_id = t.task_id AND o.status <> 'done'
                                AND o.deleted_at IS NULL), 'true', 'false')),
             json(iif(t.task_id IN (SELECT blocks_task_id FROM tickets
                                    WHERE status = 'open' AND blocks_task_id IS NOT NULL),
                      'true', 'false'))))
         FROM tasks t
         WHERE t.project_id = ?1 AND t.status NOT IN ('done', 'cancelled')
           AND t.deleted_at IS NULL AND t.kind <> 'answer'";
    let (open,) = db.one(sql, (worker.project_id, &worker.agent, worker.attempt_id)).await?;
    Ok(open)
}

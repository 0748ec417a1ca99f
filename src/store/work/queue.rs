//! The open tasks of a project, as the rules of the queue need them: one statement and one row for
//! all, because each row that crosses from the database's thread costs more than the task in it.

use crate::store::sql::Sql;
use crate::store::{Db, Result};
use crate::work::Worker;
use crate::work::queue::OpenTask;

/// What a worker sees of its project's queue, without the tasks that only put a question to an
/// executor.
pub async fn open(db: Db<'_>, worker: &Worker) -> Result<Vec<OpenTask>> {
    let sql = "SELECT json_group_array(json_object(
             'task_id', t.task_id, 'priority', t.priority, 'kind', t.kind, 'status', t.status,
             'review', t.standing,
             'claim',
             CASE WHEN t.task_id = (SELECT task_id FROM attempts WHERE attempt_id = ?3)
                    OR (t.standing = 'rework'
                        AND t.task_id IN (SELECT task_id FROM leases WHERE agent = ?2)) THEN 'own'
                  WHEN t.task_id IN (SELECT task_id FROM task_holders) THEN 'held'
                  WHEN t.task_id IN (SELECT task_id FROM leases) THEN 'abandoned'
                  ELSE 'free' END,
             'waits',
             json(iif(EXISTS (SELECT 1 FROM task_dependencies d
                              JOIN tasks o ON o.task_id = d.depends_on
                              WHERE d.task_id = t.task_id AND o.status <> 'done'
                                AND o.deleted_at IS NULL), 'true', 'false')),
             'is_blocked',
             json(iif(t.task_id IN (SELECT blocks_task_id FROM tickets
                                    WHERE status = 'open' AND blocks_task_id IS NOT NULL),
                      'true', 'false'))))
         FROM tasks t
         WHERE t.project_id = ?1 AND t.status NOT IN ('done', 'cancelled')
           AND t.deleted_at IS NULL AND t.kind <> 'answer'";
    let (open,) = db.one(sql, (worker.project_id, &worker.agent, worker.attempt_id)).await?;
    Ok(open)
}

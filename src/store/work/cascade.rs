//! What follows when a task is done or deleted: its tickets are resolved, and tasks that
//! depended on it are free.

use provost_actors::ids::TaskId;

use super::tickets;
use crate::api::worker::status::Cascaded;
use crate::store::sql::Sql;
use crate::store::{Db, Result};

/// Open tasks of a list that nothing blocks any more. A task that was reported as blocked
/// counts as free: its blocker is gone.
const FREED: &str = "SELECT t.task_id FROM tasks t
    WHERE t.task_id IN (SELECT depended.task_id FROM task_dependencies depended
                        WHERE depended.depends_on = ?1
                        UNION SELECT value FROM json_each(?2))
      AND t.status NOT IN ('done', 'cancelled') AND t.deleted_at IS NULL
      AND t.standing IS NOT 'failed'
      AND NOT EXISTS (SELECT 1 FROM task_dependencies d JOIN tasks u ON u.task_id = d.depends_on
                      WHERE d.task_id = t.task_id AND u.status <> 'done' AND u.deleted_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM tickets k
                      WHERE k.blocks_task_id = t.task_id AND k.status = 'open')";

/// Resolves the tickets of a task whose status is `done` now, and frees the tasks that depended on it.
pub async fn after_done(db: Db<'_>, task: TaskId, handle: &str) -> Result<Cascaded> {
    free(db, task, &format!("{handle} is done.")).await
}

/// Resolves the tickets of a deleted task, and frees the tasks that would wait for it forever.
pub async fn after_removed(db: Db<'_>, task: TaskId) -> Result<Cascaded> {
    free(db, task, "The task that was to resolve it was deleted.").await
}

async fn free(db: Db<'_>, task: TaskId, resolution: &str) -> Result<Cascaded> {
    let (tickets_resolved, waited) = tickets::resolve_linked(db, task, resolution).await?;
    let freed: Vec<String> = db.all(FREED, (task, waited)).await?;
    let tasks_unblocked = freed.len() as u64;
    let sql = "UPDATE tasks SET standing = NULL, blocked_reason = NULL
         WHERE standing = 'blocked' AND task_id IN (SELECT value FROM json_each(?1))";
    db.run(sql, (freed,)).await?;
    Ok(Cascaded { tickets_resolved, tasks_unblocked })
}

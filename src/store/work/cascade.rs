//! What follows when a task is done or deleted: its tickets are resolved, and tasks that
//! depended on it are free.

use provost_actors::ids::TaskId;
use serde_json::Value;

use super::tickets;
use crate::api::worker::status::Cascaded;
use crate::store::codec::Text;
use crate::store::{Result, Writing};

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

/// Brings about what follows from a task whose status is `done` now.
pub async fn of_done(writing: Writing<'_>, task: TaskId, handle: &str) -> Result<Cascaded> {
    free(writing, task, &format!("{handle} is done.")).await
}

/// The same for a task that was deleted: what waits for it would wait for ever.
pub async fn of_removed(writing: Writing<'_>, task: TaskId) -> Result<Cascaded> {
    free(writing, task, "The task that was to resolve it was deleted.").await
}

async fn free(writing: Writing<'_>, task: TaskId, resolution: &str) -> Result<Cascaded> {
    let (tickets_resolved, waited) = tickets::resolve_linked(writing, task, resolution).await?;
    let waited: Value = waited.iter().map(ToString::to_string).collect();
    let freed: Vec<String> = sqlx::query_scalar(FREED)
        .bind(Text(task))
        .bind(waited.to_string())
        .fetch_all(&mut *writing)
        .await?;
    let tasks_unblocked = u64::try_from(freed.len()).unwrap_or(u64::MAX);
    sqlx::query(
        "UPDATE tasks SET standing = NULL, blocked_reason = NULL
         WHERE standing = 'blocked' AND task_id IN (SELECT value FROM json_each(?1))",
    )
    .bind(Value::from(freed).to_string())
    .execute(writing)
    .await?;
    Ok(Cascaded { tickets_resolved, tasks_unblocked })
}

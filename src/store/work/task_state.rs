//! The status and review state of a task after a report, and what follows when a task is done or deleted: its
//! tickets are resolved, and tasks that waited for it become free.

use provost_actors::ids::TaskId;

use super::scope::WorkTask;
use super::{leases, tickets};
use crate::api::worker::status::Cascaded;
use crate::store::{Code, Db, Refusal, Result, Sql, now, word};
use crate::work::ReviewState;
use crate::work::report::Becomes;

/// Gives a task the status and review state that a report makes of it. `reason` is stored only where the task
/// is blocked, failed or needs rework.
pub async fn set(
    db: Db<'_>,
    task: TaskId,
    becomes: Becomes,
    reason: Option<&str>,
    progress: Option<i64>,
) -> Result<()> {
    let is_held_up = matches!(
        becomes.review,
        Some(ReviewState::Blocked | ReviewState::Failed | ReviewState::Rework)
    );
    let reason = reason.filter(|_| is_held_up);
    let sql = "UPDATE tasks SET status = $2, standing = $3, blocked_reason = $4,
                progress = coalesce($5, progress), updated_at = $6
         WHERE task_id = $1";
    db.run(sql, (task, becomes.status, becomes.review, reason, progress, now())).await?;
    if becomes.is_let_go {
        leases::let_go(db, task).await?;
    }
    Ok(())
}

/// The refusal of a report on a task that is closed; `why` continues the sentence `task X …`.
pub fn taken_already(task: &WorkTask, why: &str) -> Refusal {
    Refusal::new(Code::InvalidState, format!("task {} {why}", task.handle))
        .hint("Call getNextTask instead.")
        .detail("task_id", task.handle.as_str())
        .detail("status", word(&task.status))
}

/// The open tasks of a list that nothing blocks any more. A task that was reported as blocked becomes free,
/// because its blocker is gone.
const FREED: &str = "SELECT t.task_id FROM tasks t
    WHERE t.task_id IN (SELECT depended.task_id FROM task_dependencies depended
                        WHERE depended.depends_on = $1
                        UNION SELECT value FROM json_each($2))
      AND t.status NOT IN ('done', 'cancelled') AND t.deleted_at IS NULL
      AND t.standing IS DISTINCT FROM 'failed'
      AND NOT EXISTS (SELECT 1 FROM task_dependencies d JOIN tasks u ON u.task_id = d.depends_on
                      WHERE d.task_id = t.task_id AND u.status <> 'done' AND u.deleted_at IS NULL)
      AND NOT EXISTS (SELECT 1 FROM tickets k
                      WHERE k.blocks_task_id = t.task_id AND k.status = 'open')";

/// Resolves the tickets of a task that is now `done`, and frees the tasks that waited for it.
pub async fn after_done(db: Db<'_>, task: TaskId, handle: &str) -> Result<Cascaded> {
    free(db, task, &format!("{handle} is done.")).await
}

/// Resolves the tickets of a deleted task, and frees the tasks that would otherwise wait for it forever.
pub async fn after_removed(db: Db<'_>, task: TaskId) -> Result<Cascaded> {
    free(db, task, "The task that was to resolve it was deleted.").await
}

async fn free(db: Db<'_>, task: TaskId, resolution: &str) -> Result<Cascaded> {
    let (tickets_resolved, waited) = tickets::resolve_linked(db, task, resolution).await?;
    let freed: Vec<String> = db.all(FREED, (task, waited)).await?;
    let tasks_unblocked = freed.len() as u64;
    let sql = "UPDATE tasks SET standing = NULL, blocked_reason = NULL, updated_at = $2
         WHERE standing = 'blocked' AND task_id IN (SELECT value FROM json_each($1))";
    db.run(sql, (freed, now())).await?;
    Ok(Cascaded { tickets_resolved, tasks_unblocked })
}

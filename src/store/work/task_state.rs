//! The status and review state of a task after a report: set in one place for all tools.

use provost_actors::ids::TaskId;
use provost_actors::refusal::{Code, Refusal};

use super::leases;
use super::scope::WorkTask;
use crate::store::sql::{Sql, now, word};
use crate::store::{Db, Result};
use crate::work::ReviewState;
use crate::work::report::Becomes;

/// Gives a task the status and review state that a report makes of it.
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
    let sql = "UPDATE tasks SET status = ?2, standing = ?3, blocked_reason = ?4,
                progress = coalesce(?5, progress), updated_at = ?6
         WHERE task_id = ?1";
    db.run(sql, (task, becomes.status, becomes.review, reason, progress, now())).await?;
    if becomes.is_let_go {
        leases::let_go(db, task).await?;
    }
    Ok(())
}

pub fn taken_already(task: &WorkTask, why: &str) -> Refusal {
    Refusal::new(Code::InvalidState, format!("task {} {why}", task.handle))
        .hint("Call getNextTask instead.")
        .detail("task_id", task.handle.as_str())
        .detail("status", word(&task.status))
}

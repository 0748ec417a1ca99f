//! What a report makes of its task: the one path for all tools that report on tasks. What follows
//! when a task is done or deleted: its tickets are resolved, and tasks that depended on it are free.

use provost_actors::ids::{ReportId, TaskId};
use provost_actors::journal::checks::Delivered;

use super::scope::{self, WorkTask};
use super::{WorkerCall, checks, leases, reports, tickets, verification};
use crate::api::worker::done::VerificationTask;
use crate::api::worker::status::Cascaded;
use crate::store::{Code, Db, Refusal, Result, Sql, dependencies, now, word};
use crate::work::report::{Becomes, Said, TaskReport, becomes, closed};
use crate::work::{ReviewState, TaskKind, Worker};

/// What a report brought about.
pub struct Outcome {
    pub task: WorkTask,
    pub report: ReportId,
    /// The checks of the project hold the last word.
    pub checks_run: bool,
    pub cascaded: Cascaded,
    pub verification: Option<VerificationTask>,
    pub warnings: Vec<String>,
}

/// Records a report, with all that follows from it. Part of its transaction: a worker that
/// gets no answer calls again, and finds either everything done or nothing.
pub async fn take<C: WorkerCall>(
    db: Db<'_>,
    worker: &Worker,
    call: &C,
    given: TaskReport<'_>,
    delivered: Option<&Delivered>,
) -> Result<Outcome> {
    let task = scope::reportable_task(db, worker, given.task).await?;
    if let Some(why) = closed(task.status, task.review) {
        return Err(taken_already(&task, why).into());
    }
    let is_done = given.said == Said::Done;
    let mut warnings = given.contradictions.clone();
    if is_done {
        warnings.extend(odd_about_done(db, &task, delivered).await?);
    }
    let (of, status) = (Some(task.task_id), Some(word(&given.status)));
    let report = reports::record(db, worker, call, of, status, &warnings).await?;
    // A verification changes nothing that could be checked.
    let checks_run = match delivered {
        Some(delivered) if is_done && task.kind != TaskKind::Verification => {
            checks::plan(db, task.task_id, delivered, given.claims_passed).await?
        }
        _ => false,
    };
    let becomes = becomes(given.said, checks_run);
    set(db, task.task_id, becomes, given.reason, given.progress).await?;
    let mut cascaded = Cascaded::default();
    if is_done && !checks_run {
        cascaded = after_done(db, task.task_id, &task.handle).await?;
    }
    let mut verification = None;
    if is_done && task.kind == TaskKind::Work {
        let branch = branch(db, worker, task.task_id).await?;
        let branch = branch.as_deref();
        verification = verification::order(db, worker, &task, &given, branch, checks_run).await?;
    }
    Ok(Outcome { task, report, checks_run, cascaded, verification, warnings })
}

/// Where the work on a task is: the branch of the attempt that reports, or else of the
/// task's newest.
async fn branch(db: Db<'_>, worker: &Worker, task: TaskId) -> Result<Option<String>> {
    let sql = "SELECT branch FROM attempts WHERE attempt_id = ?1 OR task_id = ?2
         ORDER BY attempt_id IS ?1 DESC, attempt_id DESC LIMIT 1";
    db.find(sql, (worker.attempt_id, task)).await
}

/// Warnings about a report of done: nothing was changed, or the task depends on others that
/// are not done.
async fn odd_about_done(
    db: Db<'_>,
    task: &WorkTask,
    delivered: Option<&Delivered>,
) -> Result<Vec<String>> {
    let mut odd = Vec::new();
    if delivered.is_some_and(|it| it.is_empty_diff == Some(true)) {
        odd.push("The task is reported as done, and nothing was changed for it.".to_owned());
    }
    if task.kind == TaskKind::Verification {
        let handle = &task.handle;
        odd.push(format!(
            "This report does not say what {handle} found; reportVerificationResult does."
        ));
    }
    let blockers = tickets::blocking(db, task.task_id).await?;
    if !blockers.is_empty() {
        let (handle, blockers) = (&task.handle, blockers.join(", "));
        odd.push(format!("{handle} is reported as done while {blockers} stood in its way."));
    }
    let unmet = dependencies::unmet(db, task.task_id).await?;
    if !unmet.is_empty() {
        let unmet: Vec<String> = unmet.into_iter().map(|task| task.handle).collect();
        let (handle, unmet) = (&task.handle, unmet.join(", "));
        odd.push(format!("{handle} is reported as done before what it waits for: {unmet}."));
    }
    Ok(odd)
}

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

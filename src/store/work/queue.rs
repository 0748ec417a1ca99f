//! The open tasks of a project, and its progress; both are part of the answer to every report.

use crate::api::worker::done::NextTaskPreview;
use crate::api::worker::next::Filter;
use crate::api::worker::report::Dashboard;
use crate::store::{Db, Result, Sql};
use crate::work::Worker;
use crate::work::queue::{OpenTask, select};
use crate::work::report::percent;

/// The open tasks of a worker's project, with the facts that the rules of the queue need; without tasks that
/// put a question to an executor. All tasks come in one row, because each row that crosses from the
/// database's thread costs more than the task in it.
pub async fn open(db: Db<'_>, worker: &Worker) -> Result<Vec<OpenTask>> {
    let sql = "SELECT json_group_array(json_object(
             'task_id', t.task_id, 'priority', t.priority, 'kind', t.kind, 'status', t.status,
             'review', t.standing,
             'claim',
             CASE WHEN t.task_id = (SELECT task_id FROM attempts WHERE attempt_id = $3)
                    OR (t.standing = 'rework'
                        AND t.task_id IN (SELECT task_id FROM leases WHERE agent = $2)) THEN 'own'
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
         WHERE t.project_id = $1 AND t.status NOT IN ('done', 'cancelled')
           AND t.deleted_at IS NULL AND t.kind <> 'answer'";
    db.one(sql, (worker.project_id, &worker.agent, worker.attempt_id)).await
}

/// The state of a project after a report.
pub struct Progress {
    /// How many tasks are ready.
    pub ready: usize,
    pub dashboard: Dashboard,
    /// The handle of the next task for the worker, and the task in short; `None`: no task is ready.
    pub next: Option<(String, NextTaskPreview)>,
}

/// The state of the worker's project now, as the worker sees it.
pub async fn progress(db: Db<'_>, worker: &Worker) -> Result<Progress> {
    let open = open(db, worker).await?;
    let ready = select(&open, Filter::Ready);
    let next = match ready.first() {
        Some(task) => {
            let sql = "SELECT handle, title, priority FROM tasks WHERE task_id = $1";
            let (handle, title, priority) = db.one(sql, (task.task_id,)).await?;
            Some((handle, NextTaskPreview { title, priority }))
        }
        None => None,
    };
    let sql = "SELECT count(*) FILTER (WHERE kind = 'work' AND status = 'done'),
                count(*) FILTER (WHERE kind = 'work'),
                count(*) FILTER (WHERE kind = 'verification' AND status <> 'done')
         FROM tasks WHERE project_id = $1 AND status <> 'cancelled' AND deleted_at IS NULL";
    let (completed_count, total_count, verification_pending_count) =
        db.one(sql, (worker.project_id,)).await?;
    let dashboard = Dashboard {
        completed_count,
        total_count,
        percent_complete: percent(completed_count, total_count),
        blocked_count: u32::try_from(select(&open, Filter::Blocked).len()).unwrap_or(u32::MAX),
        verification_pending_count,
    };
    Ok(Progress { ready: ready.len(), dashboard, next })
}

//! The progress of a project and the next task: part of the answer to every report.

use provost_actors::ids::TaskId;

use super::queue;
use crate::api::worker::done::NextTaskPreview;
use crate::api::worker::next::Filter;
use crate::api::worker::report::Dashboard;
use crate::store::sql::Sql;
use crate::store::{Db, Result};
use crate::work::Worker;
use crate::work::queue::select;
use crate::work::report::percent;

/// A project's state as a report leaves it.
pub struct Progress {
    pub ready: usize,
    pub dashboard: Dashboard,
    /// The handle of the task that is next for the worker, and that task in short.
    pub next: Option<(String, NextTaskPreview)>,
}

/// What the worker sees of its project now.
pub async fn of(db: Db<'_>, worker: &Worker) -> Result<Progress> {
    let open = queue::open(db, worker).await?;
    let ready = select(&open, Filter::Ready);
    let next = match ready.first() {
        Some(task) => {
            let sql = "SELECT handle, title, priority FROM tasks WHERE task_id = ?1";
            let (handle, title, priority) = db.one(sql, (task.task_id,)).await?;
            Some((handle, NextTaskPreview { title, priority }))
        }
        None => None,
    };
    let sql = "SELECT count(*) FILTER (WHERE kind = 'work' AND status = 'done'),
                count(*) FILTER (WHERE kind = 'work'),
                count(*) FILTER (WHERE kind = 'verification' AND status <> 'done')
         FROM tasks WHERE project_id = ?1 AND status <> 'cancelled' AND deleted_at IS NULL";
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

/// The files that a task's newest report about changes names.
pub async fn files_of(db: Db<'_>, task: TaskId) -> Result<Vec<String>> {
    let sql = "SELECT coalesce(json_extract(body, '$.filesModified'),
                         json_extract(body, '$.files_modified')) AS files
         FROM reports WHERE task_id = ?1 AND files IS NOT NULL ORDER BY report_id DESC LIMIT 1";
    let found: Option<(Vec<String>,)> = db.find(sql, (task,)).await?;
    Ok(found.map(|(files,)| files).unwrap_or_default())
}

//! The progress of a project and the next task: part of the answer to every report.

use provost_actors::ids::{ProjectId, TaskId};
use serde_json::Value;
use sqlx::FromRow;

use super::queue;
use crate::api::worker::done::NextTaskPreview;
use crate::api::worker::next::Filter;
use crate::api::worker::report::Dashboard;
use crate::store::codec::Text;
use crate::store::{Result, Writing};
use crate::work::Worker;
use crate::work::queue::{count, select};
use crate::work::report::percent;

/// A project's state as a report leaves it.
pub struct Progress {
    pub ready: usize,
    pub dashboard: Dashboard,
    /// The handle of the task that is next for the worker, and that task in short.
    pub next: Option<(String, NextTaskPreview)>,
}

#[derive(FromRow)]
struct Row {
    completed: u32,
    total: u32,
    verifications: u32,
}

/// What the worker sees of its project now.
pub async fn of(writing: Writing<'_>, worker: &Worker) -> Result<Progress> {
    let open = queue::open(writing, worker).await?;
    let counts = count(&open);
    let next = match select(&open, Filter::Ready).first() {
        Some(task) => Some(preview(writing, task.task_id).await?),
        None => None,
    };
    let row = totals(writing, worker.project_id).await?;
    let dashboard = Dashboard {
        completed_count: row.completed,
        total_count: row.total,
        percent_complete: percent(row.completed, row.total),
        blocked_count: u32::try_from(counts.blocked).unwrap_or(u32::MAX),
        verification_pending_count: row.verifications,
    };
    Ok(Progress { ready: counts.ready, dashboard, next })
}

async fn totals(writing: Writing<'_>, project: ProjectId) -> Result<Row> {
    Ok(sqlx::query_as(
        "SELECT count(*) FILTER (WHERE kind = 'work' AND status = 'done') AS completed,
                count(*) FILTER (WHERE kind = 'work') AS total,
                count(*) FILTER (WHERE kind = 'verification' AND status <> 'done') AS verifications
         FROM tasks WHERE project_id = ?1 AND status <> 'cancelled' AND deleted_at IS NULL",
    )
    .bind(Text(project))
    .fetch_one(writing)
    .await?)
}

async fn preview(writing: Writing<'_>, task: TaskId) -> Result<(String, NextTaskPreview)> {
    let (handle, title, priority): (String, String, String) =
        sqlx::query_as("SELECT handle, title, priority FROM tasks WHERE task_id = ?1")
            .bind(Text(task))
            .fetch_one(writing)
            .await?;
    Ok((handle, NextTaskPreview { title, priority }))
}

/// The files that a task's newest report about changes names.
pub async fn files_of(writing: Writing<'_>, task: TaskId) -> Result<Vec<String>> {
    let files: Option<String> = sqlx::query_scalar(
        "SELECT coalesce(json_extract(body, '$.filesModified'),
                         json_extract(body, '$.files_modified')) AS files
         FROM reports WHERE task_id = ?1 AND files IS NOT NULL ORDER BY report_id DESC LIMIT 1",
    )
    .bind(Text(task))
    .fetch_optional(writing)
    .await?;
    let files = files.and_then(|files| serde_json::from_str::<Value>(&files).ok());
    let files = files.as_ref().and_then(Value::as_array).into_iter().flatten();
    Ok(files.filter_map(Value::as_str).map(str::to_owned).collect())
}

//! Every report as it was given: part of the transaction that it brings about.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ReportId, TaskId};
use provost_actors::refusal::Refusal;
use serde::Serialize;

use crate::store::{Writing, fault};
use crate::work::Worker;

/// A report to be kept.
pub struct Report<'a, T> {
    pub tool: &'static str,
    pub task: Option<TaskId>,
    /// What it says of the task, in the tool's own word.
    pub status: Option<&'a str>,
    pub body: &'a T,
    /// What is odd about it, in sentences.
    pub warnings: &'a [String],
}

/// Keeps a report.
pub async fn record<T: Serialize>(
    writing: Writing<'_>,
    worker: &Worker,
    report: Report<'_, T>,
) -> Result<ReportId, Refusal> {
    let json = |error: serde_json::Error| Refusal::internal(error.to_string());
    let id = ReportId::new();
    sqlx::query(
        "INSERT INTO reports (report_id, project_id, task_id, attempt_id, agent, tool, status, body,
                              warnings, reported_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )
    .bind(id.to_string())
    .bind(worker.project_id.to_string())
    .bind(report.task.map(|task| task.to_string()))
    .bind(worker.attempt_id.map(|attempt| attempt.to_string()))
    .bind(&worker.agent)
    .bind(report.tool)
    .bind(report.status)
    .bind(serde_json::to_string(report.body).map_err(json)?)
    .bind(match report.warnings {
        [] => None,
        warnings => Some(serde_json::to_string(warnings).map_err(json)?),
    })
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(id)
}

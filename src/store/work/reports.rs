//! Every report as it was given: part of the transaction that it brings about.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ReportId, TaskId};
use provost_actors::journal::LastReport;
use provost_actors::refusal::Refusal;
use provost_actors::text::cut;
use serde::Serialize;
use sqlx::FromRow;

use crate::store::{Writing, fault};
use crate::work::Worker;

/// How much of a report's summary is told in brief, in characters.
const SUMMARY_MAX: usize = 1000;

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

#[derive(FromRow)]
struct LastRow {
    status: Option<String>,
    summary: Option<String>,
    warnings: Option<String>,
    reported_at: i64,
}

/// The newest report on a task, in brief.
pub async fn last(reading: Writing<'_>, task: TaskId) -> Result<Option<LastReport>, Refusal> {
    let row: Option<LastRow> = sqlx::query_as(
        "SELECT status, warnings, reported_at,
                coalesce(json_extract(body, '$.implementationNotes'),
                         json_extract(body, '$.output_summary'),
                         json_extract(body, '$.details'),
                         json_extract(body, '$.verification.summary'),
                         json_extract(body, '$.failureDetails.error')) AS summary
         FROM reports WHERE task_id = ?1 AND status IS NOT NULL ORDER BY report_id DESC LIMIT 1",
    )
    .bind(task.to_string())
    .fetch_optional(reading)
    .await
    .map_err(fault)?;
    Ok(row.map(|row| LastReport {
        status: row.status,
        at: Timestamp::from_millis(row.reported_at),
        summary: row.summary.map(|summary| cut(summary, SUMMARY_MAX)),
        warnings: row.warnings.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default(),
    }))
}

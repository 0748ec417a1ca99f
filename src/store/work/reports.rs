//! Every report as it was given: part of the transaction that it brings about.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ReportId, TaskId};
use provost_actors::journal::LastReport;
use provost_actors::refusal::Refusal;
use provost_actors::text::cut;
use serde::Serialize;
use sqlx::FromRow;

use crate::api::worker::reported::{Reported, TaskReport};
use crate::store::{Store, Writing, fault};
use crate::work::Worker;
use crate::work::reported::{self, SHOWN};

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
struct ReportRow {
    tool: String,
    by: String,
    task: String,
    status: Option<String>,
    handles: String,
    warnings: Option<String>,
    body: String,
    reported_at: i64,
}

impl Store {
    /// What was reported on a task and on those that verify it, newest first, and why a
    /// report made it.
    pub async fn reported(&self, task: TaskId) -> Result<Reported, Refusal> {
        let mut reading = self.reader.begin().await.map_err(fault)?;
        let of_task = "r.task_id = ?1 OR r.task_id IN
             (SELECT task_id FROM tasks WHERE about = ?1 AND kind = 'verification')";
        let rows: Vec<ReportRow> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT r.tool, coalesce(r.attempt_id, r.agent) AS by, t.handle AS task, r.status,
                    (SELECT json_group_array(handle) FROM (
                         SELECT handle FROM notes n WHERE n.report_id = r.report_id UNION ALL
                         SELECT handle FROM failures f WHERE f.report_id = r.report_id)) AS handles,
                    r.warnings, r.body, r.reported_at
             FROM reports r JOIN tasks t USING (task_id) WHERE {of_task}
             ORDER BY r.report_id DESC LIMIT ?2"
        )))
        .bind(task.to_string())
        .bind(i64::try_from(SHOWN).unwrap_or(i64::MAX))
        .fetch_all(&mut *reading)
        .await
        .map_err(fault)?;
        let (reason, total): (Option<String>, i64) = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT reason, (SELECT count(*) FROM reports r WHERE {of_task})
             FROM tasks WHERE task_id = ?1"
        )))
        .bind(task.to_string())
        .fetch_one(&mut *reading)
        .await
        .map_err(fault)?;
        let list = |json: &str| serde_json::from_str(json).unwrap_or_default();
        let reports = rows.into_iter().map(|row| TaskReport {
            at: Timestamp::from_millis(row.reported_at),
            tool: row.tool,
            by: row.by,
            task_id: row.task,
            status: row.status,
            handles: list(&row.handles),
            warnings: row.warnings.as_deref().map(list).unwrap_or_default(),
            report: serde_json::from_str(&row.body).unwrap_or_default(),
            truncated: false,
        });
        Ok(Reported {
            reason,
            reports: reported::fitting(reports.collect()),
            reports_total: total.unsigned_abs(),
        })
    }
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

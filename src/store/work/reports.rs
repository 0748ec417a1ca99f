//! Every report as it was given: part of the transaction that it brings about.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ReportId, TaskId};
use provost_actors::refusal::Refusal;
use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row};

use crate::api::worker::reported::{Reported, TaskReport};
use crate::store::codec::{Columns, Text};
use crate::store::{Result, Store, Writing};
use crate::work::Worker;
use crate::work::reported::{self, SHOWN};

/// A report to be kept.
pub struct Report<'a, T> {
    pub tool: &'static str,
    pub task: Option<TaskId>,
    /// What it says of the task, in the tool's own word.
    pub status: Option<&'a str>,
    pub body: &'a T,
    /// Its contradictions, in sentences.
    pub warnings: &'a [String],
}

/// Keeps a report.
pub async fn record<T: Serialize>(
    writing: Writing<'_>,
    worker: &Worker,
    report: Report<'_, T>,
) -> Result<ReportId> {
    let id = ReportId::new();
    sqlx::query(
        "INSERT INTO reports (report_id, project_id, task_id, attempt_id, agent, tool, status, body,
                              warnings, reported_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )
    .bind(Text(id))
    .bind(Text(worker.project_id))
    .bind(report.task.map(Text))
    .bind(worker.attempt_id.map(Text))
    .bind(&worker.agent)
    .bind(report.tool)
    .bind(report.status)
    .bind(serde_json::to_string(report.body)?)
    .bind(match report.warnings {
        [] => None,
        warnings => Some(serde_json::to_string(warnings)?),
    })
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok(id)
}

fn report(row: &SqliteRow) -> sqlx::Result<TaskReport> {
    Ok(TaskReport {
        at: row.at("reported_at")?,
        tool: row.try_get("tool")?,
        by: row.try_get("by")?,
        task_id: row.try_get("task")?,
        status: row.try_get("status")?,
        handles: row.json("handles").unwrap_or_default(),
        warnings: row.json("warnings").unwrap_or_default(),
        report: row.json("body").unwrap_or_default(),
        truncated: false,
    })
}

impl Store {
    /// What was reported on a task and on those that verify it, newest first, and why a
    /// report made it.
    pub async fn reported(&self, task: TaskId) -> Result<Reported, Refusal> {
        let of_task = "r.task_id = ?1 OR r.task_id IN
             (SELECT task_id FROM tasks WHERE about = ?1 AND kind = 'verification')";
        self.read(async |reading| {
            let mut reading = reading.begin().await?;
            let reports = sqlx::query(sqlx::AssertSqlSafe(format!(
                "SELECT r.tool, coalesce(r.attempt_id, r.agent) AS by, t.handle AS task, r.status,
                        (SELECT json_group_array(handle) FROM (
                             SELECT handle FROM notes n WHERE n.report_id = r.report_id UNION ALL
                             SELECT handle FROM failures f WHERE f.report_id = r.report_id))
                            AS handles,
                        r.warnings, r.body, r.reported_at
                 FROM reports r JOIN tasks t USING (task_id) WHERE {of_task}
                 ORDER BY r.report_id DESC LIMIT ?2"
            )))
            .bind(Text(task))
            .bind(i64::try_from(SHOWN).unwrap_or(i64::MAX))
            .try_map(|row| report(&row))
            .fetch_all(&mut *reading)
            .await?;
            let (reason, total): (Option<String>, i64) =
                sqlx::query_as(sqlx::AssertSqlSafe(format!(
                    "SELECT reason, (SELECT count(*) FROM reports r WHERE {of_task})
                     FROM tasks WHERE task_id = ?1"
                )))
                .bind(Text(task))
                .fetch_one(&mut *reading)
                .await?;
            Ok(Reported {
                reason,
                reports: reported::fitting(reports),
                reports_total: total.unsigned_abs(),
            })
        })
        .await
    }
}

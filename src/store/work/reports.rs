//! Every report as the worker gave it, written in the transaction of its consequences.

use provost_actors::ids::{ReportId, TaskId};
use serde_json::json;

use super::{Worker, WorkerCall};
use crate::api::worker::report::{Reported, TaskReport};
use crate::store::{Db, Refusal, Result, Sql, Store, now};
use crate::work::report_history::{self, SHOWN};

/// Stores a report. `status` is what it says of the task in the tool's own word; `warnings` are its
/// contradictions in sentences.
pub async fn record<C: WorkerCall>(
    db: Db<'_>,
    worker: &Worker,
    report: &C,
    task: Option<TaskId>,
    status: Option<String>,
    warnings: &[String],
) -> Result<ReportId> {
    let id = ReportId::new();
    let warnings = Some(warnings).filter(|warnings| !warnings.is_empty());
    let row = json!({
        "report_id": id, "project_id": worker.project_id, "task_id": task,
        "attempt_id": worker.attempt_id, "agent": worker.agent, "tool": C::TOOL,
        "status": status, "body": serde_json::to_string(report)?,
        "warnings": warnings, "reported_at": now(),
    });
    db.insert("INTO reports", row).await?;
    Ok(id)
}

impl Store {
    /// The reports on a task and on the tasks that verify it, newest first, and the reason for which a report
    /// made the task.
    pub async fn reported(&self, task: TaskId) -> Result<Reported, Refusal> {
        let of_task = "r.task_id = $1 OR r.task_id IN
             (SELECT task_id FROM tasks WHERE about = $1 AND kind = 'verification')";
        let newest = sqlx::AssertSqlSafe(format!(
            "SELECT r.reported_at AS at, r.tool, coalesce(r.attempt_id, r.agent) AS by,
                    t.handle AS task_id, r.status,
                    (SELECT json_group_array(handle) FROM (
                         SELECT handle FROM notes n WHERE n.report_id = r.report_id UNION ALL
                         SELECT handle FROM failures f WHERE f.report_id = r.report_id) h)
                        AS handles,
                    r.warnings, r.body AS report, 0 AS truncated
             FROM reports r JOIN tasks t USING (task_id) WHERE {of_task}
             ORDER BY r.report_id DESC LIMIT $2"
        ));
        let total = sqlx::AssertSqlSafe(format!(
            "SELECT reason, (SELECT count(*) FROM reports r WHERE {of_task})
             FROM tasks WHERE task_id = $1"
        ));
        // One snapshot, so that the reports and their number fit together.
        self.read_snapshot(async |db| {
            let mut reports: Vec<TaskReport> = db.all(newest, (task, SHOWN)).await?;
            for TaskReport { report, .. } in &mut reports {
                // The column holds JSON as text, and a field of any type reads it as a string.
                *report = serde_json::from_str(report.as_str().unwrap_or("null"))?;
            }
            let (reason, reports_total) = db.one(total, (task,)).await?;
            Ok(Reported { reason, reports: report_history::fitting(reports), reports_total })
        })
        .await
    }
}

/// The changed files that the newest report with such a list names; empty: no report names any.
pub async fn files_of(db: Db<'_>, task: TaskId) -> Result<Vec<String>> {
    let sql = "SELECT files FROM (
             SELECT coalesce(body ->> '$.filesModified', body ->> '$.files_modified') AS files,
                    report_id
             FROM reports WHERE task_id = $1) r
         WHERE files IS NOT NULL ORDER BY report_id DESC LIMIT 1";
    let found: Option<(Vec<String>,)> = db.find(sql, (task,)).await?;
    Ok(found.map(|(files,)| files).unwrap_or_default())
}

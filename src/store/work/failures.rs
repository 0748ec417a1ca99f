//! `reportTestFailure`: records a failure, explains it by similar ones, and orders an investigation. A second
//! failure of the same test joins an investigation or an alert that is still open.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{FailureId, TaskId, TicketId};
use provost_actors::journal::{Priority, TaskStatus};
use serde_json::json;

use super::scope::{self, WorkTask};
use super::tickets::{self, NewTicket};
use super::{Submission, WorkerCall, deliveries, reports};
use crate::api::worker::failure::{
    BlockingTask, InvestigationTask, ReportTestFailureInput, ReportTestFailureOutput,
};
use crate::api::worker::path;
use crate::api::worker::ticket::{TicketKind, Urgency};
use crate::store::tasks::{self, Draft};
use crate::store::{Db, Result, Sql, dependencies, handles, now, word};
use crate::work::cause::{self, Earlier};
use crate::work::{TaskKind, Worker, signature};

/// How many similar failures are read, newest first.
const EARLIER: i64 = 20;

#[async_trait]
impl WorkerCall for ReportTestFailureInput {
    const TOOL: &'static str = "reportTestFailure";
    type Output = ReportTestFailureOutput;

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        _: Option<&Submission>,
    ) -> Result<Self::Output> {
        path::check("testFile", &self.test_file)?;
        let task = scope::changeable_task(db, worker, &self.task_id).await?;
        let signature = signature::of(&self.failure_details.error);
        let earlier = earlier(db, worker, self, &signature).await?;
        let changed = reports::files_of(db, task.task_id).await?;
        let cause = cause::analyse(self, &changed, &earlier);
        let (of, status) = (Some(task.task_id), Some(word(&self.previous_status)));
        let report = reports::record(db, worker, self, of, status, &[]).await?;
        let handle = handles::next(db, worker.project_id, handles::FAILURE).await?;
        let same_test = || earlier.iter().filter(|it| it.is_same_test);
        let open = same_test().find_map(|it| it.investigation.clone());
        let has_investigation = open.is_some() || self.needs_investigation;
        let mut investigation = open.filter(|_| self.needs_investigation);
        let mut made = None;
        if investigation.is_none() && self.needs_investigation {
            let details = self.details(&handle, &task.handle, &cause);
            let (id, new) = investigate(db, worker, &task, self, details).await?;
            investigation = Some((id, new.task_id.clone()));
            made = Some(new);
        }
        let is_back = same_test().any(|it| it.end.is_some());
        let dashboard_alert =
            self.alert(&task.handle, is_back, has_investigation, Timestamp::now());
        let alert = match &dashboard_alert {
            Some(alert) if alert.requires_human_attention => {
                // An alert that is still open is about this failure too.
                match same_test().find_map(|it| it.alert.clone()) {
                    Some(waiting) => Some(waiting),
                    None => Some(ask_a_person(db, worker, self, &alert.message).await?),
                }
            }
            _ => None,
        };
        let row = json!({
            "failure_id": FailureId::new(), "project_id": worker.project_id, "handle": handle,
            "task_id": task.task_id, "report_id": report, "test_name": &*self.test_name,
            "test_file": &*self.test_file, "signature": signature,
            "investigation": investigation.as_ref().map(|(id, _)| id),
            "alert": alert.as_ref().map(|(id, _)| id), "failed_at": now(),
        });
        db.insert("INTO failures", row).await?;
        let blocking_task = match &investigation {
            Some((id, name)) => block(db, worker, &task, *id, name).await?,
            None => None,
        };
        let blocker = blocking_task.is_some();
        Ok(ReportTestFailureOutput {
            success: true,
            test_failure_id: handle,
            test_name: self.test_name.to_string(),
            status: "failure_logged".to_owned(),
            blocking_task,
            investigation_task_created: made.map(|made| InvestigationTask { blocker, ..made }),
            suspected_root_cause_analysis: Some(cause),
            dashboard_alert,
            alert_ticket: alert.map(|(_, handle)| handle),
            answers: deliveries::deliver_due(db, worker, None).await?,
        })
    }
}

/// Earlier failures of the same test, or with the same error in another test.
async fn earlier(
    db: Db<'_>,
    worker: &Worker,
    input: &ReportTestFailureInput,
    signature: &str,
) -> Result<Vec<Earlier>> {
    let sql = "SELECT f.handle, f.test_name = $2 AND f.test_file = $3 AS is_same_test,
                CASE WHEN i.status NOT IN ('done', 'cancelled')
                     THEN json_array(i.task_id, i.handle) END AS investigation,
                CASE WHEN i.status = 'done' THEN json_object('task', i.handle, 'summary',
                    (SELECT coalesce(r.body ->> '$.implementationNotes',
                                     r.body ->> '$.output_summary', r.body ->> '$.details')
                     FROM reports r WHERE r.task_id = f.investigation
                     ORDER BY r.report_id DESC LIMIT 1)) END AS \"end\",
                CASE WHEN k.ticket_id IS NOT NULL
                     THEN json_array(k.ticket_id, k.handle) END AS alert
         FROM failures f
         LEFT JOIN tickets k ON k.ticket_id = f.alert AND k.status = 'open'
         LEFT JOIN tasks i ON i.task_id = f.investigation AND i.deleted_at IS NULL
         WHERE f.project_id = $1
           AND ((f.test_name = $2 AND f.test_file = $3) OR f.signature = $4)
         ORDER BY f.failure_id DESC LIMIT $5";
    db.all(sql, (worker.project_id, &*input.test_name, &*input.test_file, signature, EARLIER)).await
}

/// Opens an alert that a person must resolve.
async fn ask_a_person(
    db: Db<'_>,
    worker: &Worker,
    input: &ReportTestFailureInput,
    message: &str,
) -> Result<(TicketId, String)> {
    let text = format!("{}\n\n{}", &*input.action_needed, &*input.failure_details.error);
    let ticket = NewTicket {
        kind: TicketKind::Alert,
        title: message,
        description: Some(text.trim_start()),
        priority: Urgency::Critical,
        ..NewTicket::default()
    };
    tickets::open(db, worker, ticket).await
}

/// Puts an investigation on the board, with a priority above all other work.
async fn investigate(
    db: Db<'_>,
    worker: &Worker,
    task: &WorkTask,
    input: &ReportTestFailureInput,
    details: String,
) -> Result<(TaskId, InvestigationTask)> {
    let title = format!("Investigate: {} fails", &*input.test_name);
    let reason = format!("A test fails in {}.", task.handle);
    let draft = Draft {
        kind: TaskKind::Investigation,
        description: Some(&details),
        about: Some(task.task_id),
        reason: Some(&reason),
        ..Draft::new(worker.project_id, &title, Priority::Critical)
    };
    let (id, task_id) = tasks::insert(db, &draft).await?;
    let made = InvestigationTask {
        task_id,
        title,
        priority: word(&Priority::Critical),
        blocker: false,
        details,
        added_to_queue: true,
        position: "immediate (highest priority)".to_owned(),
    };
    Ok((id, made))
}

/// Makes a task wait for an investigation. `None`: the task is closed, or the investigation itself waits for
/// the task, so nothing is changed.
async fn block(
    db: Db<'_>,
    worker: &Worker,
    task: &WorkTask,
    investigation: TaskId,
    name: &str,
) -> Result<Option<BlockingTask>> {
    let sql = "WITH RECURSIVE first (task_id) AS (
             SELECT task_id FROM tasks WHERE task_id = $1 UNION
             SELECT d.depends_on FROM task_dependencies d JOIN first f ON f.task_id = d.task_id)
         SELECT EXISTS (SELECT 1 FROM first WHERE task_id = $2)";
    let waits_for_it: bool = db.one(sql, (investigation, task.task_id)).await?;
    if waits_for_it || matches!(task.status, TaskStatus::Done | TaskStatus::Cancelled) {
        return Ok(None);
    }
    let added = dependencies::add(db, task.task_id, &[investigation]).await?;
    let message = format!("{} is blocked until {name} is done.", task.handle);
    if added > 0 {
        let ticket = NewTicket {
            kind: TicketKind::Investigation,
            title: &message,
            priority: Urgency::Critical,
            task: Some(investigation),
            blocks: Some(task.task_id),
            ..NewTicket::default()
        };
        tickets::open(db, worker, ticket).await?;
    }
    Ok(Some(BlockingTask { blocking_task_id: name.to_owned(), message }))
}

//! `reportTestFailure`: logs a failure, explains it by similar ones, and orders an
//! investigation.

use provost_actors::event::Timestamp;
use provost_actors::ids::{FailureId, ReportId, TaskId, TicketId};
use provost_actors::journal::{Key, Once, Priority, TaskStatus};
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use super::deliveries;
use super::progress;
use super::reports::{self, Report};
use super::scope::{self, WorkTask};
use super::tickets::{self, NewTicket};
use crate::api::worker::failure::RootCause;
use crate::api::worker::failure::{
    BlockingTask, InvestigationTask, ReportTestFailureInput, ReportTestFailureOutput,
};
use crate::api::worker::path;
use crate::api::worker::ticket::{TicketKind, Urgency};
use crate::store::codec::Text;
use crate::store::handles::{self, Prefix};
use crate::store::tasks::{self, Draft};
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing, codec};
use crate::work::cause::{self, Earlier, End, Evidence};
use crate::work::signature;
use crate::work::{TaskKind, Worker};

const TOOL: &str = "reportTestFailure";

/// Most earlier failures that are looked at.
const EARLIER: i64 = 20;

impl Store {
    /// `reportTestFailure`.
    pub async fn report_test_failure(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &ReportTestFailureInput,
    ) -> Result<Once<ReportTestFailureOutput>, Refusal> {
        self.keyed(Patience::Caller, key, TOOL, async |writing| log(writing, worker, input).await)
            .await
    }
}

async fn log(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportTestFailureInput,
) -> Result<ReportTestFailureOutput> {
    path::check("testFile", &input.test_file)?;
    let task = scope::task_of_theirs(writing, worker, &input.task_id).await?;
    let signature = signature::of(&input.failure_details.error);
    let seen = seen(writing, worker, input, &signature).await?;
    let cause = analyse(writing, &task, input, &seen).await?;
    let report = Report {
        tool: TOOL,
        task: Some(task.task_id),
        status: Some(&codec::word(&input.previous_status)),
        body: input,
        warnings: &[],
    };
    let report = reports::record(writing, worker, report).await?;
    let handle = handles::next(writing, worker.project_id, Prefix::Failure).await?;
    let same_test = || seen.iter().filter(|it| it.is_same_test);
    let open = same_test().find_map(Seen::open);
    let is_seen_to = open.is_some() || input.needs_investigation;
    let mut investigation = open.filter(|_| input.needs_investigation);
    let mut made = None;
    if investigation.is_none() && input.needs_investigation {
        let details = input.details(&handle, &task.handle, &cause);
        let (id, new) = investigate(writing, worker, &task, input, details).await?;
        investigation = Some((id, new.task_id.clone()));
        made = Some(new);
    }
    let is_back = same_test().any(|it| it.end().is_some());
    let dashboard_alert = input.alert(&task.handle, is_back, is_seen_to, Timestamp::now());
    let alert = match &dashboard_alert {
        Some(alert) if alert.requires_human_attention => {
            // One that still waits is of this failure too.
            let waiting = same_test().find_map(Seen::waiting_alert);
            match waiting {
                Some(waiting) => Some(waiting),
                None => Some(ask_a_person(writing, worker, input, &alert.message).await?),
            }
        }
        _ => None,
    };
    let logged = Logged {
        handle: &handle,
        alert: alert.as_ref().map(|(id, _)| *id),
        task: task.task_id,
        report,
        signature: &signature,
        investigation: investigation.as_ref().map(|(id, _)| *id),
    };
    insert(writing, worker, input, &logged).await?;
    let blocking_task = match &investigation {
        Some((id, name)) => block(writing, worker, &task, *id, name).await?,
        None => None,
    };
    let blocker = blocking_task.is_some();
    Ok(ReportTestFailureOutput {
        success: true,
        test_failure_id: handle,
        test_name: input.test_name.to_string(),
        status: "failure_logged".to_owned(),
        blocking_task,
        investigation_task_created: made.map(|made| InvestigationTask { blocker, ..made }),
        suspected_root_cause_analysis: Some(cause),
        dashboard_alert,
        alert_ticket: alert.map(|(_, handle)| handle),
        answers: deliveries::tell_due(writing, worker, None).await?,
    })
}

/// A failure that was reported before.
#[derive(FromRow)]
struct Seen {
    handle: String,
    is_same_test: bool,
    investigation: Option<String>,
    investigation_handle: Option<String>,
    investigation_status: Option<String>,
    /// What the last report on the investigation says.
    summary: Option<String>,
    /// The alert that it raised, if that is still open.
    alert: Option<String>,
    alert_handle: Option<String>,
}

impl Seen {
    /// The investigation that is still to come, or under way.
    fn open(&self) -> Option<(TaskId, String)> {
        let status = self.investigation_status.as_deref()?;
        let id = self.investigation.as_deref()?.parse().ok()?;
        let is_over = ["done", "cancelled"].contains(&status);
        Some((id, self.investigation_handle.clone()?)).filter(|_| !is_over)
    }

    /// The alert that still waits for a person.
    fn waiting_alert(&self) -> Option<(TicketId, String)> {
        Some((self.alert.as_deref()?.parse().ok()?, self.alert_handle.clone()?))
    }

    /// The investigation that ended it.
    fn end(&self) -> Option<End> {
        self.investigation_status.as_deref().filter(|status| *status == "done")?;
        Some(End { task: self.investigation_handle.clone()?, summary: self.summary.clone() })
    }
}

/// The newest failures of the same test, or with the same error.
async fn seen(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportTestFailureInput,
    signature: &str,
) -> Result<Vec<Seen>> {
    Ok(sqlx::query_as(
        "SELECT f.handle, f.test_name = ?2 AND f.test_file = ?3 AS is_same_test, f.investigation,
                i.handle AS investigation_handle, i.status AS investigation_status,
                (SELECT coalesce(json_extract(r.body, '$.implementationNotes'),
                                 json_extract(r.body, '$.output_summary'),
                                 json_extract(r.body, '$.details'))
                 FROM reports r WHERE r.task_id = f.investigation
                 ORDER BY r.report_id DESC LIMIT 1) AS summary,
                k.ticket_id AS alert, k.handle AS alert_handle
         FROM failures f
         LEFT JOIN tickets k ON k.ticket_id = f.alert AND k.status = 'open'
         LEFT JOIN tasks i ON i.task_id = f.investigation AND i.deleted_at IS NULL
         WHERE f.project_id = ?1
           AND ((f.test_name = ?2 AND f.test_file = ?3) OR f.signature = ?4)
         ORDER BY f.failure_id DESC LIMIT ?5",
    )
    .bind(Text(worker.project_id))
    .bind(&*input.test_name)
    .bind(&*input.test_file)
    .bind(signature)
    .bind(EARLIER)
    .fetch_all(writing)
    .await?)
}

async fn analyse(
    writing: Writing<'_>,
    task: &WorkTask,
    input: &ReportTestFailureInput,
    seen: &[Seen],
) -> Result<RootCause> {
    let changed = progress::files_of(writing, task.task_id).await?;
    let earlier: Vec<Earlier> = seen
        .iter()
        .map(|it| Earlier {
            handle: it.handle.clone(),
            is_same_test: it.is_same_test,
            end: it.end(),
        })
        .collect();
    let guesses = input.cause_possibility.iter().flat_map(|list| list.iter());
    let guesses: Vec<String> = guesses.map(|guess| guess.to_string()).collect();
    let failure = &input.failure_details;
    let told = cause::analyse(&Evidence {
        test_name: &input.test_name,
        test_file: &input.test_file,
        error: &failure.error,
        assertion: failure.failed_assertion.as_deref(),
        expected: failure.expected_value.as_ref(),
        actual: failure.actual_value.as_ref(),
        before: input.previous_status.into(),
        guesses: &guesses,
        changed: &changed,
        earlier: &earlier,
    });
    Ok(RootCause { likeliest_cause: told.likeliest, suggested_investigation: told.steps })
}

/// Opens an alert on a failure that is back, or that no investigation looks into.
async fn ask_a_person(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportTestFailureInput,
    message: &str,
) -> Result<(TicketId, String)> {
    let text = format!("{}\n\n{}", &*input.action_needed, &*input.failure_details.error);
    let (kind, urgency) = (TicketKind::Alert, Urgency::Critical);
    tickets::open_for_person(writing, worker, kind, urgency, message, text.trim_start()).await
}

/// Puts the investigation on the board, before all other work.
async fn investigate(
    writing: Writing<'_>,
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
    let (id, task_id) = tasks::insert(writing, &draft).await?;
    let made = InvestigationTask {
        task_id,
        title,
        priority: codec::word(&Priority::Critical),
        blocker: false,
        details,
        added_to_queue: true,
        position: "immediate (highest priority)".to_owned(),
    };
    Ok((id, made))
}

/// Makes a task depend on an investigation, unless the task is closed, or the investigation
/// depends on it.
async fn block(
    writing: Writing<'_>,
    worker: &Worker,
    task: &WorkTask,
    investigation: TaskId,
    name: &str,
) -> Result<Option<BlockingTask>> {
    let waits_for_it: bool = sqlx::query_scalar(
        "WITH RECURSIVE first (task_id) AS (
             VALUES (?1) UNION
             SELECT d.depends_on FROM task_dependencies d JOIN first f ON f.task_id = d.task_id)
         SELECT EXISTS (SELECT 1 FROM first WHERE task_id = ?2)",
    )
    .bind(Text(investigation))
    .bind(Text(task.task_id))
    .fetch_one(&mut *writing)
    .await?;
    if waits_for_it || matches!(task.status, TaskStatus::Done | TaskStatus::Cancelled) {
        return Ok(None);
    }
    let added = sqlx::query(
        "INSERT OR IGNORE INTO task_dependencies (task_id, depends_on) VALUES (?1, ?2)",
    )
    .bind(Text(task.task_id))
    .bind(Text(investigation))
    .execute(&mut *writing)
    .await?;
    let message = format!("{} is blocked until {name} is done.", task.handle);
    if added.rows_affected() > 0 {
        let ticket = NewTicket {
            kind: TicketKind::Investigation,
            title: &message,
            description: None,
            priority: Urgency::Critical,
            task: Some(investigation),
            blocks: Some(task.task_id),
        };
        tickets::open(writing, worker, ticket).await?;
    }
    Ok(Some(BlockingTask { blocking_task_id: name.to_owned(), message }))
}

/// A row of `failures`, beside the report and its input.
struct Logged<'a> {
    handle: &'a str,
    task: TaskId,
    report: ReportId,
    signature: &'a str,
    investigation: Option<TaskId>,
    alert: Option<TicketId>,
}

async fn insert(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportTestFailureInput,
    logged: &Logged<'_>,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO failures (failure_id, project_id, handle, task_id, report_id, test_name,
                               test_file, signature, investigation, failed_at, alert)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )
    .bind(Text(FailureId::new()))
    .bind(Text(worker.project_id))
    .bind(logged.handle)
    .bind(Text(logged.task))
    .bind(Text(logged.report))
    .bind(&*input.test_name)
    .bind(&*input.test_file)
    .bind(logged.signature)
    .bind(logged.investigation.map(Text))
    .bind(Timestamp::now().millis())
    .bind(logged.alert.map(Text))
    .execute(writing)
    .await?;
    Ok(())
}

//! `reportObservation` and `reportIssue`: notes, with the alerts and tasks that follow from them.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{NoteId, ReportId, TaskId, TicketId};
use provost_actors::text::cut;
use serde_json::json;

use super::tickets::{self, NewTicket};
use super::{Submission, Worker, WorkerCall, deliveries, queue, reports, scope};
use crate::api::brief::Brief;
use crate::api::worker::issue::{ReportIssueInput, ReportIssueOutput};
use crate::api::worker::next::Filter;
use crate::api::worker::observation::{
    DashboardAlert, FullOutput, NewTaskCreated, NewTaskDetails, ObservationStatus,
    ReportObservationInput, ReportObservationOutput, ShortOutput,
};
use crate::api::worker::ticket::{TicketKind, Urgency};
use crate::store::tasks::{self, Draft};
use crate::store::{Db, Result, Sql, handles, now};
use crate::work::observation::Observed;
use crate::work::queue::select;

/// The length to which the title of an alert is cut, in characters.
const TITLE_MAX: usize = 120;

/// Something that a worker found, to be stored.
#[derive(Default)]
pub struct Note<'a> {
    /// `false`: an observation.
    pub is_issue: bool,
    pub task: Option<TaskId>,
    pub text: &'a str,
    /// The worker's own word for what it found.
    pub category: Option<&'a str>,
    pub severity: Urgency,
    /// The report that contains the note.
    pub report: Option<ReportId>,
    /// The task that was made of the note.
    pub new_task: Option<TaskId>,
    /// The ticket that was opened for the note.
    pub alert: Option<TicketId>,
}

/// Stores a note; returns its handle.
pub async fn keep(db: Db<'_>, worker: &Worker, note: &Note<'_>) -> Result<String> {
    let (kind, prefix) = if note.is_issue {
        ("issue", handles::ISSUE)
    } else {
        ("observation", handles::OBSERVATION)
    };
    let handle = handles::next(db, worker.project_id, prefix).await?;
    let row = json!({
        "note_id": NoteId::new(), "project_id": worker.project_id, "handle": handle,
        "kind": kind, "task_id": note.task, "text": note.text, "category": note.category,
        "severity": note.severity, "report_id": note.report, "new_task": note.new_task,
        "alert": note.alert, "noted_at": now(),
    });
    db.insert("INTO notes", row).await?;
    Ok(handle)
}

/// Opens an alert for a person, if one is wanted.
async fn alert(
    db: Db<'_>,
    worker: &Worker,
    is_wanted: bool,
    text: &str,
    urgency: Urgency,
) -> Result<Option<(TicketId, String)>> {
    if !is_wanted {
        return Ok(None);
    }
    let ticket = NewTicket {
        kind: TicketKind::Alert,
        title: &cut(text.to_owned(), TITLE_MAX),
        description: Some(text),
        priority: urgency,
        ..NewTicket::default()
    };
    tickets::open(db, worker, ticket).await.map(Some)
}

#[async_trait]
impl WorkerCall for ReportIssueInput {
    const TOOL: &'static str = "reportIssue";
    type Output = ReportIssueOutput;

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        _: Option<&Submission>,
    ) -> Result<Self::Output> {
        self.check()?;
        let task = named(db, worker, self.task_id.as_deref()).await?;
        let report = reports::record(db, worker, self, task, None, &[]).await?;
        let (text, severity) = (&*self.issue_description, self.severity.urgency());
        let alert = alert(db, worker, self.is_alert(), text, severity).await?;
        let note = Note {
            is_issue: true,
            task,
            text,
            severity,
            report: Some(report),
            alert: alert.as_ref().map(|(ticket, _)| *ticket),
            ..Note::default()
        };
        let issue_id = keep(db, worker, &note).await?;
        Ok(ReportIssueOutput {
            logged: true,
            escalated: alert.is_some(),
            issue_id,
            alert_ticket: alert.map(|(_, handle)| handle),
            answers: deliveries::deliver_due(db, worker, None).await?,
        })
    }
}

/// The task that a note names, which must exist.
async fn named(db: Db<'_>, worker: &Worker, name: Option<&str>) -> Result<Option<TaskId>> {
    match name {
        Some(name) => Ok(Some(scope::task(db, worker, name).await?.task_id)),
        None => Ok(None),
    }
}

#[async_trait]
impl WorkerCall for ReportObservationInput {
    const TOOL: &'static str = "reportObservation";
    type Output = ReportObservationOutput;

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        _: Option<&Submission>,
    ) -> Result<Self::Output> {
        let observed = self.read()?;
        let task = named(db, worker, observed.task).await?;
        named(db, worker, observed.related).await?;
        let report = reports::record(db, worker, self, task, None, &[]).await?;
        let alert =
            alert(db, worker, observed.is_alert(), observed.text, observed.severity).await?;
        let made = match observed.new_task {
            Some(details) => Some(make(db, worker, &observed, details).await?),
            None => None,
        };
        let note = Note {
            is_issue: false,
            task,
            text: observed.text,
            category: observed.category.as_deref(),
            severity: observed.severity,
            report: Some(report),
            new_task: made.as_ref().map(|(task, _)| *task),
            alert: alert.as_ref().map(|(ticket, _)| *ticket),
        };
        let observation_id = keep(db, worker, &note).await?;
        let Some(kind) = observed.kind else {
            let answers = deliveries::deliver_due(db, worker, None).await?;
            let short = ShortOutput { logged: true, observation_id, answers };
            return Ok(ReportObservationOutput::Short(short));
        };
        let is_seen = alert.is_some() || made.is_some();
        let dashboard_alert = is_seen.then(|| DashboardAlert {
            message: format!("New observation: {}", cut(observed.text.to_owned(), TITLE_MAX)),
            timestamp: Timestamp::now(),
            visible: true,
        });
        Ok(ReportObservationOutput::Full(FullOutput {
            success: true,
            observation_id,
            observation: observed.text.to_owned(),
            kind,
            severity: observed.severity,
            status: match made {
                Some(_) => ObservationStatus::TaskCreated,
                None => ObservationStatus::Logged,
            },
            new_task_created: made.map(|(_, made)| made),
            dashboard_alert,
            alert_ticket: alert.map(|(_, handle)| handle),
            answers: deliveries::deliver_due(db, worker, None).await?,
        }))
    }
}

/// Puts the task of an observation on the board, and says where the task is among the ready ones.
async fn make(
    db: Db<'_>,
    worker: &Worker,
    observed: &Observed<'_>,
    details: &NewTaskDetails,
) -> Result<(TaskId, NewTaskCreated)> {
    let estimated_hours = details.estimated_hours.as_ref().map(|it| it.number().clone());
    let brief = Brief { estimated_hours, ..Brief::default() };
    let brief = (!brief.is_empty()).then(|| brief.to_json());
    let (description, priority) = (observed.description(), details.priority);
    let draft = Draft {
        description: Some(&description),
        reason: Some(observed.text),
        brief,
        ..Draft::new(worker.project_id, &details.title, priority)
    };
    let (task, handle) = tasks::insert(db, &draft).await?;
    let open = queue::open(db, worker).await?;
    let ready = select(&open, Filter::Ready);
    let place = ready.iter().position(|open| open.task_id == task).map_or(0, |place| place + 1);
    let made = NewTaskCreated {
        task_id: handle,
        title: details.title.to_string(),
        priority,
        added_to_queue: true,
        position: format!("number {place} of {} ready tasks", ready.len()),
    };
    Ok((task, made))
}

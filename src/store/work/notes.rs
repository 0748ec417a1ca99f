//! `reportObservation` and `reportIssue`: notes, and the alerts and tasks that follow.

use provost_actors::event::Timestamp;
use provost_actors::ids::{NoteId, ReportId, TaskId, TicketId};
use provost_actors::journal::{Key, Once};
use provost_actors::refusal::Refusal;
use provost_actors::text::cut;

use super::deliveries;
use super::reports::{self, Report};
use super::tickets;
use super::{queue, scope};
use crate::api::brief::Brief;
use crate::api::worker::issue::{ReportIssueInput, ReportIssueOutput};
use crate::api::worker::next::Filter;
use crate::api::worker::note::NewTaskCreated;
use crate::api::worker::observation::{
    DashboardAlert, FullOutput, NewTaskDetails, ObservationStatus, ReportObservationInput,
    ReportObservationOutput, ShortOutput,
};
use crate::api::worker::ticket::{TicketKind, Urgency};
use crate::store::codec::Text;
use crate::store::handles::{self, Prefix};
use crate::store::tasks::{self, Draft};
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing};
use crate::work::Worker;
use crate::work::note::NoteKind;
use crate::work::observation::{Form, Observed};
use crate::work::queue::select;

/// How much of a note stands in a title, in characters.
const TITLE_MAX: usize = 120;

/// Something found, to be kept.
pub struct Note<'a> {
    pub kind: NoteKind,
    pub task: Option<TaskId>,
    pub text: &'a str,
    /// The worker's word for what it is.
    pub category: Option<&'a str>,
    pub severity: Urgency,
    pub report: Option<ReportId>,
    /// The task that was made of it.
    pub new_task: Option<TaskId>,
    /// The alert that it raised.
    pub alert: Option<TicketId>,
}

/// Keeps a note; gives its handle.
pub async fn keep(writing: Writing<'_>, worker: &Worker, note: &Note<'_>) -> Result<String> {
    let prefix = match note.kind {
        NoteKind::Observation => Prefix::Observation,
        NoteKind::Issue => Prefix::Issue,
    };
    let handle = handles::next(writing, worker.project_id, prefix).await?;
    sqlx::query(
        "INSERT INTO notes (note_id, project_id, handle, kind, task_id, text, category, severity,
                            report_id, new_task, alert, noted_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )
    .bind(Text(NoteId::new()))
    .bind(Text(worker.project_id))
    .bind(&handle)
    .bind(Text(note.kind))
    .bind(note.task.map(Text))
    .bind(note.text)
    .bind(note.category)
    .bind(Text(note.severity))
    .bind(note.report.map(Text))
    .bind(note.new_task.map(Text))
    .bind(note.alert.map(Text))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok(handle)
}

/// Opens an alert, if there is to be one.
async fn alert(
    writing: Writing<'_>,
    worker: &Worker,
    is_wanted: bool,
    text: &str,
    urgency: Urgency,
) -> Result<Option<(TicketId, String)>> {
    if !is_wanted {
        return Ok(None);
    }
    let title = cut(text.to_owned(), TITLE_MAX);
    let opened =
        tickets::open_for_person(writing, worker, TicketKind::Alert, urgency, &title, text);
    opened.await.map(Some)
}

impl Store {
    /// `reportObservation`.
    pub async fn report_observation(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &ReportObservationInput,
    ) -> Result<Once<ReportObservationOutput>, Refusal> {
        let observed = input.read()?;
        self.keyed(Patience::Caller, key, "reportObservation", async |writing| {
            observe(writing, worker, input, &observed).await
        })
        .await
    }

    /// `reportIssue`.
    pub async fn report_issue(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &ReportIssueInput,
    ) -> Result<Once<ReportIssueOutput>, Refusal> {
        input.check()?;
        self.keyed(Patience::Caller, key, "reportIssue", async |writing| {
            let task = named(writing, worker, input.task_id.as_deref()).await?;
            let report =
                Report { tool: "reportIssue", task, status: None, body: input, warnings: &[] };
            let report = reports::record(writing, worker, report).await?;
            let (text, severity) = (&*input.issue_description, input.severity.urgency());
            let alert = alert(writing, worker, input.is_alert(), text, severity).await?;
            let note = Note {
                kind: NoteKind::Issue,
                task,
                text,
                category: None,
                severity,
                report: Some(report),
                new_task: None,
                alert: alert.as_ref().map(|(ticket, _)| *ticket),
            };
            let issue_id = keep(writing, worker, &note).await?;
            Ok(ReportIssueOutput {
                logged: true,
                escalated: alert.is_some(),
                issue_id,
                alert_ticket: alert.map(|(_, handle)| handle),
                answers: deliveries::tell_due(writing, worker, None).await?,
            })
        })
        .await
    }
}

/// The task of a name, where one is given.
async fn named(
    writing: Writing<'_>,
    worker: &Worker,
    name: Option<&str>,
) -> Result<Option<TaskId>> {
    match name {
        Some(name) => Ok(Some(scope::task(writing, worker, name).await?.task_id)),
        None => Ok(None),
    }
}

async fn observe(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportObservationInput,
    observed: &Observed<'_>,
) -> Result<ReportObservationOutput> {
    let task = named(writing, worker, observed.task).await?;
    named(writing, worker, observed.related).await?;
    let report =
        Report { tool: "reportObservation", task, status: None, body: input, warnings: &[] };
    let report = reports::record(writing, worker, report).await?;
    let alert = alert(writing, worker, observed.is_alert, observed.text, observed.severity).await?;
    let made = match observed.new_task {
        Some(details) => Some(make(writing, worker, observed, details).await?),
        None => None,
    };
    let note = Note {
        kind: NoteKind::Observation,
        task,
        text: observed.text,
        category: observed.category,
        severity: observed.severity,
        report: Some(report),
        new_task: made.as_ref().map(|(task, _)| *task),
        alert: alert.as_ref().map(|(ticket, _)| *ticket),
    };
    let observation_id = keep(writing, worker, &note).await?;
    let Form::Full(kind) = observed.form else {
        let answers = deliveries::tell_due(writing, worker, None).await?;
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
        answers: deliveries::tell_due(writing, worker, None).await?,
    }))
}

/// Makes the task that is asked for, and gives its place in the queue.
async fn make(
    writing: Writing<'_>,
    worker: &Worker,
    observed: &Observed<'_>,
    details: &NewTaskDetails,
) -> Result<(TaskId, NewTaskCreated)> {
    let estimated_hours = details.estimated_hours.as_ref().map(|it| it.number().clone());
    let brief = Brief { estimated_hours, ..Brief::default() };
    let brief = (!brief.is_empty()).then(|| brief.to_json());
    let (description, priority) = (observed.description(), details.priority.into());
    let draft = Draft {
        description: Some(&description),
        reason: Some(observed.text),
        brief: brief.as_deref(),
        ..Draft::new(worker.project_id, &details.title, priority)
    };
    let (task, handle) = tasks::insert(writing, &draft).await?;
    let open = queue::open(writing, worker).await?;
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

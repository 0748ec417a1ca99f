//! What workers found beside their tasks.

use provost_actors::event::Timestamp;
use provost_actors::ids::{NoteId, ReportId, TaskId, TicketId};
use provost_actors::refusal::Refusal;

use super::handles::{self, Prefix};
use crate::store::{Writing, codec, fault};
use crate::work::Worker;
use crate::work::note::NoteKind;
use crate::work::ticket::Urgency;

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
pub async fn keep(
    writing: Writing<'_>,
    worker: &Worker,
    note: &Note<'_>,
) -> Result<String, Refusal> {
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
    .bind(NoteId::new().to_string())
    .bind(worker.project_id.to_string())
    .bind(&handle)
    .bind(codec::word(&note.kind))
    .bind(note.task.map(|task| task.to_string()))
    .bind(note.text)
    .bind(note.category)
    .bind(codec::word(&note.severity))
    .bind(note.report.map(|report| report.to_string()))
    .bind(note.new_task.map(|task| task.to_string()))
    .bind(note.alert.map(|ticket| ticket.to_string()))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(handle)
}

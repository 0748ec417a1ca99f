//! What workers found beside their tasks.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ReportId, TaskId};
use provost_actors::refusal::Refusal;

use super::handles::{self, Prefix};
use crate::store::{Writing, codec, fault};
use crate::work::Worker;
use crate::work::note::NoteKind;

/// Something found, to be kept.
pub struct NewNote<'a> {
    pub kind: NoteKind,
    pub task: TaskId,
    pub report: ReportId,
    pub text: &'a str,
    pub severity: &'a str,
}

/// Keeps a note; gives its handle.
pub async fn insert(
    writing: Writing<'_>,
    worker: &Worker,
    new: NewNote<'_>,
) -> Result<String, Refusal> {
    let prefix = match new.kind {
        NoteKind::Observation => Prefix::Observation,
        NoteKind::Issue => Prefix::Issue,
    };
    let handle = handles::next(writing, worker.project_id, prefix).await?;
    sqlx::query(
        "INSERT INTO notes (note_id, project_id, handle, kind, task_id, text, severity, report_id,
                            noted_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .bind(ReportId::new().to_string())
    .bind(worker.project_id.to_string())
    .bind(&handle)
    .bind(codec::word(&new.kind))
    .bind(new.task.to_string())
    .bind(new.text)
    .bind(new.severity)
    .bind(new.report.to_string())
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(handle)
}

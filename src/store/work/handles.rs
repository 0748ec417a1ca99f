//! What things are called in their project: `TASK-001`, `OBS-001`, `TK-001`.

use provost_actors::ids::ProjectId;
use provost_actors::refusal::Refusal;

use crate::store::{Writing, fault};

/// What a handle begins with. Each is counted by itself in each project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    Task,
    Verification,
    Answering,
    Ticket,
    Failure,
    Observation,
    Issue,
    Question,
}

impl Prefix {
    fn as_str(self) -> &'static str {
        match self {
            Self::Task => "TASK",
            Self::Verification => "TASK-VERIFY",
            Self::Answering => "TASK-ANSWER",
            Self::Ticket => "TK",
            Self::Failure => "FAIL",
            Self::Observation => "OBS",
            Self::Issue => "ISSUE",
            Self::Question => "Q",
        }
    }
}

/// The project's next handle of a kind.
pub async fn next(
    writing: Writing<'_>,
    project: ProjectId,
    prefix: Prefix,
) -> Result<String, Refusal> {
    let number: i64 = sqlx::query_scalar(
        "INSERT INTO handles (project_id, prefix, last) VALUES (?1, ?2, 1)
         ON CONFLICT (project_id, prefix) DO UPDATE SET last = last + 1 RETURNING last",
    )
    .bind(project.to_string())
    .bind(prefix.as_str())
    .fetch_one(writing)
    .await
    .map_err(fault)?;
    Ok(format!("{}-{number:03}", prefix.as_str()))
}

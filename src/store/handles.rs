//! What things are called in their project: `TASK-001`, `OBS-001`, `TK-001`.

use provost_actors::ids::ProjectId;

use super::codec::Text;
use super::{Result, Writing};

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

/// The project's next handle of a kind. The count is a row, so that the handle of something
/// that was deleted is never given again.
pub async fn next(writing: Writing<'_>, project: ProjectId, prefix: Prefix) -> Result<String> {
    let number: i64 = sqlx::query_scalar(
        "INSERT INTO handles (project_id, prefix, last) VALUES (?1, ?2, 1)
         ON CONFLICT (project_id, prefix) DO UPDATE SET last = last + 1 RETURNING last",
    )
    .bind(Text(project))
    .bind(prefix.as_str())
    .fetch_one(writing)
    .await?;
    Ok(format!("{}-{number:03}", prefix.as_str()))
}

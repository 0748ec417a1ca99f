//! The short names of things in their project: `TASK-001`, `OBS-001`, `TK-001`.

use provost_actors::ids::ProjectId;

use super::{Db, Result, Sql, not_found};

/// A task of work or an investigation.
pub const TASK: &str = "TASK";
/// A task that verifies another task.
pub const VERIFICATION: &str = "TASK-VERIFY";
/// A task that puts a question to an executor.
pub const ANSWERING: &str = "TASK-ANSWER";
pub const TICKET: &str = "TK";
/// A test failure that a worker has reported.
pub const FAILURE: &str = "FAIL";
pub const OBSERVATION: &str = "OBS";
pub const ISSUE: &str = "ISSUE";
/// A question of a worker.
pub const QUESTION: &str = "Q";

/// The project's next handle with this prefix. Refused if there is no such project. The last number is stored
/// in a row, so the handle of a deleted thing is never used again.
pub async fn next(db: Db<'_>, project: ProjectId, prefix: &str) -> Result<String> {
    let sql = "INSERT INTO handles (project_id, prefix, last)
         SELECT project_id, $2, 1 FROM projects WHERE project_id = $1 AND deleted_at IS NULL
         ON CONFLICT (project_id, prefix) DO UPDATE SET last = handles.last + 1 RETURNING last";
    let number: Option<i64> = db.find(sql, (project, prefix)).await?;
    let number = number.ok_or_else(|| not_found::project(project))?;
    Ok(format!("{prefix}-{number:03}"))
}

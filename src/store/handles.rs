//! What things are called in their project: `TASK-001`, `OBS-001`, `TK-001`.

use provost_actors::ids::ProjectId;

use super::{Db, Result, Sql, not_found};

pub const TASK: &str = "TASK";
pub const VERIFICATION: &str = "TASK-VERIFY";
pub const ANSWERING: &str = "TASK-ANSWER";
pub const TICKET: &str = "TK";
pub const FAILURE: &str = "FAIL";
pub const OBSERVATION: &str = "OBS";
pub const ISSUE: &str = "ISSUE";
pub const QUESTION: &str = "Q";

/// The project's next handle of a kind; refused where there is no such project. The count is a
/// row, so that the handle of something that was deleted is never given again.
pub async fn next(db: Db<'_>, project: ProjectId, prefix: &str) -> Result<String> {
    let sql = "INSERT INTO handles (project_id, prefix, last)
         SELECT project_id, $2, 1 FROM projects WHERE project_id = $1 AND deleted_at IS NULL
         ON CONFLICT (project_id, prefix) DO UPDATE SET last = handles.last + 1 RETURNING last";
    let number: Option<i64> = db.find(sql, (project, prefix)).await?;
    let number = number.ok_or_else(|| not_found::project(project))?;
    Ok(format!("{prefix}-{number:03}"))
}

//! Finds ids by pieces that people type, by names, and by what belongs together.

use std::collections::HashMap;

use provost_actors::ids::{ProjectId, TaskId};

use super::{Refusal, Sql, Store, not_found};
use crate::api::commands::{IdKind, Match};

/// The table of a kind of things, and the column with its ids.
fn table(kind: IdKind) -> (&'static str, &'static str) {
    match kind {
        IdKind::Project => ("projects", "project_id"),
        IdKind::Repo => ("repos", "repo_id"),
        IdKind::Task => ("tasks", "task_id"),
        IdKind::Attempt => ("attempts", "attempt_id"),
        IdKind::Session => ("sessions", "session_id"),
        IdKind::ExecutionProcess => ("processes", "process_id"),
    }
}

impl Store {
    /// The things whose id equals, starts with or ends with `piece`; the newest 20 of each kind. Hyphens and
    /// case do not matter. Empty if `piece` has other characters than those of a UUID.
    pub async fn resolve(&self, piece: &str, kinds: &[IdKind]) -> Result<Vec<Match>, Refusal> {
        let piece = piece.replace('-', "").to_ascii_lowercase();
        if piece.is_empty() || !piece.chars().all(|c| c.is_ascii_hexdigit()) {
            return Ok(vec![]);
        }
        self.read(async |db| {
            let mut matches = Vec::new();
            for &kind in kinds {
                let (table, id) = table(kind);
                let sql = sqlx::AssertSqlSafe(format!(
                    "SELECT {id} FROM {table} WHERE replace({id}, '-', '') LIKE $1 || '%'
                        OR replace({id}, '-', '') LIKE '%' || $1
                     ORDER BY {id} DESC LIMIT 20"
                ));
                let ids: Vec<String> = db.all(sql, (&piece,)).await?;
                matches.extend(ids.into_iter().map(|id| Match { kind, id }));
            }
            Ok(matches)
        })
        .await
    }

    /// The things with this name: projects and repositories by name or path, tasks by title or handle,
    /// attempts by branch; at most 20, of each kind the newest first. Case does not matter, except in
    /// branches and paths.
    pub async fn named(&self, name: &str) -> Result<Vec<Match>, Refusal> {
        let sql = "SELECT 'project' AS kind, project_id AS id FROM projects
                   WHERE lower(name) = lower($1)
             UNION SELECT 'repo', repo_id FROM repos
                   WHERE lower(name) = lower($1) OR path = rtrim($1, '/')
             UNION SELECT 'task', task_id FROM tasks WHERE deleted_at IS NULL
                   AND (lower(title) = lower($1) OR handle = upper($1))
             UNION SELECT 'attempt', attempt_id FROM attempts WHERE branch = $1
             ORDER BY 1, 2 DESC LIMIT 20";
        self.read(async |db| db.all(sql, (name,)).await).await
    }

    /// The tasks with this handle, one of each project, each with its project and the project's name. Deleted
    /// tasks count, because a handle never names another task later.
    pub async fn tasks_of_handle(
        &self,
        handle: &str,
    ) -> Result<Vec<(TaskId, ProjectId, String)>, Refusal> {
        let sql = "SELECT t.task_id, t.project_id, p.name FROM tasks t
             JOIN projects p ON p.project_id = t.project_id
             WHERE t.handle = $1 ORDER BY t.task_id";
        self.read(async |db| db.all(sql, (handle.to_ascii_uppercase(),)).await).await
    }

    /// The handle of a task, also of a deleted one.
    pub async fn handle_of(&self, task: TaskId) -> Result<String, Refusal> {
        let sql = "SELECT handle FROM tasks WHERE task_id = $1";
        let handle = self.read(async |db| db.find(sql, (task,)).await).await?;
        handle.ok_or_else(|| not_found::task(task))
    }

    /// The id of the `wanted` kind that goes with a thing: what the thing belongs to, or the newest that
    /// belongs to it. `None`: there is none, or several would be equally right.
    pub async fn related(&self, thing: &Match, wanted: IdKind) -> Result<Option<String>, Refusal> {
        let column = match (thing.kind, wanted) {
            (IdKind::Repo, IdKind::Project) => "project_id",
            // A project has many tasks, and a repository belongs to no attempt alone.
            (IdKind::Project | IdKind::Repo, _) | (_, IdKind::Repo) => return Ok(None),
            (_, wanted) => wanted.field(),
        };
        let sql = "SELECT t.project_id, t.task_id, a.attempt_id, s.session_id,
                    x.process_id AS execution_process_id
             FROM tasks t
             LEFT JOIN attempts a ON a.task_id = t.task_id
             LEFT JOIN sessions s ON s.attempt_id = a.attempt_id
             LEFT JOIN processes x ON x.session_id = s.session_id
             WHERE $1 IN (t.task_id, a.attempt_id, s.session_id, x.process_id)
             UNION ALL SELECT project_id, NULL, NULL, NULL, NULL FROM repos WHERE repo_id = $1
             ORDER BY 3 DESC NULLS LAST, 4 DESC NULLS LAST, 5 DESC NULLS LAST LIMIT 1";
        let row: Option<HashMap<String, Option<String>>> =
            self.read(async |db| db.find(sql, (&thing.id,)).await).await?;
        Ok(row.and_then(|mut row| row.remove(column)?))
    }
}

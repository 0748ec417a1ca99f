//! Pieces of ids, as people type them, and what kind of thing an id names.

use provost_actors::ids::{ProjectId, TaskId};
use provost_actors::refusal::Refusal;
use serde::{Deserialize, Serialize};
use sqlx::Row;

use super::codec::Text;
use super::{Result, Store, missing};

/// What an id can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Project,
    Repo,
    Task,
    Attempt,
    Session,
    ExecutionProcess,
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::Project,
        Self::Repo,
        Self::Task,
        Self::Attempt,
        Self::Session,
        Self::ExecutionProcess,
    ];

    /// The name of the fields that hold such an id.
    pub fn field(self) -> &'static str {
        match self {
            Self::Project => "project_id",
            Self::Repo => "repo_id",
            Self::Task => "task_id",
            Self::Attempt => "attempt_id",
            Self::Session => "session_id",
            Self::ExecutionProcess => "execution_process_id",
        }
    }

    fn table(self) -> &'static str {
        match self {
            Self::Project => "projects",
            Self::Repo => "repos",
            Self::Task => "tasks",
            Self::Attempt => "attempts",
            Self::Session => "sessions",
            Self::ExecutionProcess => "processes",
        }
    }

    /// The name of the column that holds it.
    fn column(self) -> &'static str {
        self.field().trim_start_matches("execution_")
    }
}

/// A thing whose id matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    pub kind: Kind,
    pub id: String,
}

impl Store {
    /// The things whose id is, starts with or ends with `piece`; at most 20 a kind.
    /// Hyphens and case don't count.
    pub async fn resolve(&self, piece: &str, kinds: &[Kind]) -> Result<Vec<Match>, Refusal> {
        let piece = piece.replace('-', "").to_ascii_lowercase();
        if piece.is_empty() || !piece.chars().all(|c| c.is_ascii_hexdigit()) {
            return Ok(vec![]);
        }
        self.read(async |reading| {
            let mut matches = Vec::new();
            for &kind in kinds {
                let (table, id) = (kind.table(), kind.column());
                let ids: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
                    "SELECT {id} FROM {table} WHERE replace({id}, '-', '') LIKE ?1 || '%'
                        OR replace({id}, '-', '') LIKE '%' || ?1 LIMIT 20"
                )))
                .bind(&piece)
                .fetch_all(&mut *reading)
                .await?;
                matches.extend(ids.into_iter().map(|id| Match { kind, id }));
            }
            Ok(matches)
        })
        .await
    }

    /// What has this name: projects and repositories by their names or paths, tasks by title
    /// or handle, attempts by branch; at most 20. Case does not count.
    pub async fn named(&self, name: &str) -> Result<Vec<Match>, Refusal> {
        self.read(async |reading| {
            let rows: Vec<(Text<Kind>, String)> = sqlx::query_as(
                "SELECT 'project', project_id FROM projects WHERE name = ?1 COLLATE NOCASE
                 UNION SELECT 'repo', repo_id FROM repos
                       WHERE name = ?1 COLLATE NOCASE OR path = rtrim(?1, '/')
                 UNION SELECT 'task', task_id FROM tasks WHERE deleted_at IS NULL
                       AND (title = ?1 COLLATE NOCASE OR handle = upper(?1))
                 UNION SELECT 'attempt', attempt_id FROM attempts WHERE branch = ?1
                 LIMIT 20",
            )
            .bind(name)
            .fetch_all(reading)
            .await?;
            Ok(rows.into_iter().map(|(Text(kind), id)| Match { kind, id }).collect())
        })
        .await
    }

    /// The tasks that have a handle, each with its project and that one's name. Deleted
    /// ones are among them: a handle never comes to mean another task.
    pub async fn tasks_of_handle(
        &self,
        handle: &str,
    ) -> Result<Vec<(TaskId, ProjectId, String)>, Refusal> {
        self.read(async |reading| {
            let rows: Vec<(Text<TaskId>, Text<ProjectId>, String)> = sqlx::query_as(
                "SELECT t.task_id, t.project_id, p.name FROM tasks t
                 JOIN projects p ON p.project_id = t.project_id
                 WHERE t.handle = ?1 ORDER BY t.task_id",
            )
            .bind(handle.to_ascii_uppercase())
            .fetch_all(reading)
            .await?;
            Ok(rows.into_iter().map(|(Text(task), Text(of), name)| (task, of, name)).collect())
        })
        .await
    }

    /// The handle of a task in its project, also if it was deleted.
    pub async fn handle_of(&self, task: TaskId) -> Result<String, Refusal> {
        self.read(async |reading| {
            let handle = sqlx::query_scalar("SELECT handle FROM tasks WHERE task_id = ?1")
                .bind(Text(task))
                .fetch_optional(reading)
                .await?;
            handle.ok_or_else(|| missing::task(task).into())
        })
        .await
    }

    /// The id of a kind that goes with a thing: what it belongs to, or the latest
    /// that belongs to it. `None` where there is no one such.
    pub async fn related(&self, thing: &Match, wanted: Kind) -> Result<Option<String>, Refusal> {
        let column = match (thing.kind, wanted) {
            (Kind::Repo, Kind::Project) => "project_id",
            // A project has many tasks, and a repository belongs to no attempt alone.
            (Kind::Project | Kind::Repo, _) | (_, Kind::Repo) => return Ok(None),
            (_, wanted) => wanted.field(),
        };
        self.read(async |reading| {
            let row = sqlx::query(
                "SELECT t.project_id, t.task_id, a.attempt_id, s.session_id,
                        x.process_id AS execution_process_id
                 FROM tasks t
                 LEFT JOIN attempts a ON a.task_id = t.task_id
                 LEFT JOIN sessions s ON s.attempt_id = a.attempt_id
                 LEFT JOIN processes x ON x.session_id = s.session_id
                 WHERE ?1 IN (t.task_id, a.attempt_id, s.session_id, x.process_id)
                 UNION ALL SELECT project_id, NULL, NULL, NULL, NULL FROM repos WHERE repo_id = ?1
                 ORDER BY 3 DESC, 4 DESC, 5 DESC LIMIT 1",
            )
            .bind(&thing.id)
            .fetch_optional(reading)
            .await?;
            Ok(row.map_or(Ok(None), |row| row.try_get(column))?)
        })
        .await
    }
}

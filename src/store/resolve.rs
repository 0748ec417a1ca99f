//! Pieces of ids, as people type them, and what kind of thing an id names.

use provost_actors::refusal::Refusal;
use serde::{Deserialize, Serialize};
use sqlx::Row;

use super::{Store, fault};

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
}

/// A thing whose id matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    pub kind: Kind,
    pub id: String,
}

macro_rules! select {
    ($table:literal, $id:literal) => {
        concat!(
            "SELECT ",
            $id,
            " FROM ",
            $table,
            " WHERE replace(",
            $id,
            ", '-', '') LIKE ?1 || '%'",
            " OR replace(",
            $id,
            ", '-', '') LIKE '%' || ?1 LIMIT 20"
        )
    };
}

impl Store {
    /// The things whose id is, starts with or ends with `piece`; at most 20 a kind.
    /// Hyphens and case don't count.
    pub async fn resolve(&self, piece: &str, kinds: &[Kind]) -> Result<Vec<Match>, Refusal> {
        let piece = piece.replace('-', "").to_ascii_lowercase();
        if piece.is_empty() || !piece.chars().all(|c| c.is_ascii_hexdigit()) {
            return Ok(vec![]);
        }
        let mut matches = Vec::new();
        for &kind in kinds {
            let sql = match kind {
                Kind::Project => select!("projects", "project_id"),
                Kind::Repo => select!("repos", "repo_id"),
                Kind::Task => select!("tasks", "task_id"),
                Kind::Attempt => select!("attempts", "attempt_id"),
                Kind::Session => select!("sessions", "session_id"),
                Kind::ExecutionProcess => select!("processes", "process_id"),
            };
            let ids: Vec<String> = sqlx::query_scalar(sql)
                .bind(&piece)
                .fetch_all(&self.reader)
                .await
                .map_err(fault)?;
            matches.extend(ids.into_iter().map(|id| Match { kind, id }));
        }
        Ok(matches)
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
        .fetch_optional(&self.reader)
        .await
        .map_err(fault)?;
        row.map_or(Ok(None), |row| row.try_get(column).map_err(fault))
    }
}

//! A database inspected from outside, beside a daemon that may be using it:
//! nothing is written, not even where the schema is an older one.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::former::{self, BeforeFirst};
use super::open::MIGRATIONS;
use super::{Result, Sql, StoreError};

/// What an inspection found.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The newest migration that was made; `None`: no Provost made the database.
    pub schema: Option<i64>,
    /// What `PRAGMA quick_check` complains of.
    pub damage: Vec<String>,
    pub dangling: usize,
    /// Empty where the schema is not this version's.
    pub attempts: Vec<InspectedAttempt>,
    pub sqlite: String,
}

/// An attempt as its rows describe it.
#[derive(Clone, Debug, Deserialize)]
pub struct InspectedAttempt {
    pub attempt_id: String,
    /// The name of its folder under `worktrees/`.
    pub folder: String,
    pub branch: String,
    pub phase: String,
    pub repos: Vec<(String, String)>,
    pub processes: Vec<InspectedProcess>,
}

impl InspectedAttempt {
    /// Nothing of it is alive or waiting, as far as its rows say.
    pub fn is_over(&self) -> bool {
        let is_closed = |process: &InspectedProcess| process.closed || process.status == "planned";
        matches!(self.phase.as_str(), "settled" | "idle") && self.processes.iter().all(is_closed)
    }
}

/// One of its execution processes.
#[derive(Clone, Debug, Deserialize)]
pub struct InspectedProcess {
    pub process_id: String,
    pub status: String,
    pub closed: bool,
}

impl Inspection {
    /// The schema that this version makes.
    pub fn newest_schema() -> i64 {
        MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
    }

    /// Why this version can't bring the schema up to date, if it can't.
    pub fn before_first(&self) -> Option<BeforeFirst> {
        self.schema.filter(|schema| *schema < former::FIRST).map(BeforeFirst)
    }
}

/// Looks at the database of a home.
pub async fn inspect(path: &Path) -> Result<Inspection, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(Duration::from_secs(2));
    let mut connection = match options.clone().connect().await {
        Ok(connection) => connection,
        // Where not even the index of a write-ahead log can be made.
        Err(_) => options.immutable(true).connect().await?,
    };
    let found = look(&mut connection).await;
    let _ = connection.close().await;
    found
}

async fn look(db: &mut SqliteConnection) -> Result<Inspection> {
    let sqlite = db.one("SELECT sqlite_version()", ()).await?;
    let mut damage: Vec<String> = db.all("PRAGMA quick_check(5)", ()).await?;
    damage.retain(|line| line != "ok");
    let sql = "SELECT max(version) FROM _sqlx_migrations WHERE success";
    let schema: Option<i64> = db.one(sql, ()).await.unwrap_or_default();
    let mut found = Inspection { schema, damage, sqlite, ..Inspection::default() };
    if found.schema == Some(Inspection::newest_schema()) && found.damage.is_empty() {
        found.dangling = db.rows("PRAGMA foreign_key_check", ()).await?.len();
        let sql = "SELECT attempt_id, folder, branch, phase,
                    (SELECT json_group_array(json_array(name, path) ORDER BY position)
                     FROM attempt_repos r WHERE r.attempt_id = a.attempt_id) AS repos,
                    (SELECT json_group_array(json_object(
                         'process_id', process_id, 'status', status,
                         'closed', json(iif(closed, 'true', 'false'))) ORDER BY process_id)
                     FROM processes p WHERE p.attempt_id = a.attempt_id) AS processes
             FROM attempts a ORDER BY attempt_id";
        found.attempts = db.all(sql, ()).await?;
    }
    Ok(found)
}

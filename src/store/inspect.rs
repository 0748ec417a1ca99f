//! Inspects a database from outside, for `doctor`, while a daemon may be using it. Writes nothing, and brings
//! no older schema up to date.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::former::{self, BeforeFirst};
use super::open::MIGRATIONS;
use super::{Result, Sql, StoreError};

/// The result of an inspection.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The newest migration that the database records; `None`: Provost did not make the database.
    pub schema: Option<i64>,
    /// The complaints of `PRAGMA quick_check`; empty: the file is whole.
    pub damage: Vec<String>,
    /// How many rows refer to a row that does not exist.
    pub dangling: usize,
    /// Empty if the schema is not this version's, or the file is damaged.
    pub attempts: Vec<InspectedAttempt>,
    /// The version of SQLite.
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
    /// The name and the path of each repository.
    pub repos: Vec<(String, String)>,
    pub processes: Vec<InspectedProcess>,
}

impl InspectedAttempt {
    /// Whether nothing of it is alive or waiting, as far as the rows say.
    pub fn is_over(&self) -> bool {
        let is_closed = |process: &InspectedProcess| process.closed || process.status == "planned";
        matches!(self.phase.as_str(), "settled" | "idle") && self.processes.iter().all(is_closed)
    }
}

/// One of its processes.
#[derive(Clone, Debug, Deserialize)]
pub struct InspectedProcess {
    pub process_id: String,
    /// The stored word: `planned`, `running`, …
    pub status: String,
    /// Nothing of it is alive any more.
    pub closed: bool,
}

impl Inspection {
    /// The number of the newest migration of this version.
    pub fn newest_schema() -> i64 {
        MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
    }

    /// Set if the board is too old for this version to bring it up to date.
    pub fn before_first(&self) -> Option<BeforeFirst> {
        self.schema.filter(|schema| *schema < former::FIRST).map(BeforeFirst)
    }
}

/// Inspects the database at `path`. Fails if it can't be opened or read.
pub async fn inspect(path: &Path) -> Result<Inspection, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(Duration::from_secs(2));
    let mut connection = match options.clone().connect().await {
        Ok(connection) => connection,
        // `immutable` needs no index of the write-ahead log, which can't be made on a read-only file system.
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

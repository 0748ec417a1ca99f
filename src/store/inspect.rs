//! A database looked at from outside, beside a daemon that may be using it:
//! nothing is written, not even where the schema is an older one.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::open::MIGRATIONS;

/// What a look found.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The newest migration that was made; `None`: it is of no Provost.
    pub schema: Option<i64>,
    /// What `PRAGMA quick_check` complains of.
    pub damage: Vec<String>,
    /// Rows that refer to nothing.
    pub dangling: usize,
    /// Empty where the schema is not this version's.
    pub attempts: Vec<InspectedAttempt>,
    /// SQLite's own version.
    pub sqlite: String,
}

/// An attempt as its rows tell it.
#[derive(Clone, Debug)]
pub struct InspectedAttempt {
    pub attempt_id: String,
    /// The name of its folder under `worktrees/`.
    pub folder: String,
    pub branch: String,
    pub phase: String,
    /// Names and paths.
    pub repos: Vec<(String, String)>,
    pub processes: Vec<InspectedProcess>,
}

impl InspectedAttempt {
    /// Nothing of it is alive or waiting, as far as its rows tell.
    pub fn is_over(&self) -> bool {
        let is_closed = |process: &InspectedProcess| process.closed || process.status == "planned";
        matches!(self.phase.as_str(), "settled" | "idle") && self.processes.iter().all(is_closed)
    }
}

/// One of its execution processes.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct InspectedProcess {
    pub attempt_id: String,
    pub process_id: String,
    pub status: String,
    /// Nothing of it is alive.
    pub closed: bool,
}

impl Inspection {
    /// The schema that this version makes.
    pub fn newest_schema() -> i64 {
        MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
    }
}

/// Looks at the database of a home.
pub async fn inspect(path: &Path) -> Result<Inspection, sqlx::Error> {
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

async fn look(reading: &mut SqliteConnection) -> Result<Inspection, sqlx::Error> {
    let sqlite = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut *reading).await?;
    let mut damage: Vec<String> =
        sqlx::query_scalar("PRAGMA quick_check(5)").fetch_all(&mut *reading).await?;
    damage.retain(|line| line != "ok");
    let schema: Result<Option<i64>, _> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success")
            .fetch_one(&mut *reading)
            .await;
    let mut found =
        Inspection { sqlite, damage, schema: schema.ok().flatten(), ..Inspection::default() };
    if found.schema == Some(Inspection::newest_schema()) && found.damage.is_empty() {
        let dangling = sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut *reading).await?;
        found.dangling = dangling.len();
        found.attempts = attempts(reading).await?;
    }
    Ok(found)
}

async fn attempts(reading: &mut SqliteConnection) -> Result<Vec<InspectedAttempt>, sqlx::Error> {
    let rows: Vec<(String, String, String, String)> =
        sqlx::query_as("SELECT attempt_id, folder, branch, phase FROM attempts ORDER BY 1")
            .fetch_all(&mut *reading)
            .await?;
    let repos: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT attempt_id, name, path FROM attempt_repos ORDER BY attempt_id, position",
    )
    .fetch_all(&mut *reading)
    .await?;
    let processes: Vec<InspectedProcess> = sqlx::query_as(
        "SELECT attempt_id, process_id, status, closed FROM processes ORDER BY 1, 2",
    )
    .fetch_all(&mut *reading)
    .await?;
    let mut attempts: Vec<InspectedAttempt> = rows
        .into_iter()
        .map(|(attempt_id, folder, branch, phase)| InspectedAttempt {
            attempt_id,
            folder,
            branch,
            phase,
            repos: Vec::new(),
            processes: Vec::new(),
        })
        .collect();
    // Both lists are in the order of the attempts.
    let place = |attempts: &[InspectedAttempt], id: &str| {
        attempts.binary_search_by(|attempt| attempt.attempt_id.as_str().cmp(id)).ok()
    };
    for (id, name, path) in repos {
        if let Some(at) = place(&attempts, &id) {
            attempts[at].repos.push((name, path));
        }
    }
    for process in processes {
        if let Some(at) = place(&attempts, &process.attempt_id) {
            attempts[at].processes.push(process);
        }
    }
    Ok(attempts)
}

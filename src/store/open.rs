//! Opens the database of a home and brings its schema up to date.

use std::path::Path;
use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::failpoint;
use sqlx::SqlitePool;
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::changes::Changes;
use super::{Store, TimesToLive};

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// Why a home's database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database can't be opened: {0}")]
    Database(#[from] sqlx::Error),
    #[error("the database is of a newer version of Provost (it has migration {0}); use that one")]
    Newer(i64),
    #[error("the database's schema can't be brought up to date: {0}")]
    Migrate(MigrateError),
}

impl From<MigrateError> for OpenError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) => Self::Newer(version),
            error => Self::Migrate(error),
        }
    }
}

impl Store {
    /// Opens or makes the database. The caller holds the home's lock.
    pub async fn open(path: &Path, times: TimesToLive) -> Result<Self, OpenError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // An answered call survives a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(30));
        let writer = pool(1).connect_with(options.clone()).await?;
        migrate(&writer).await?;
        let reader = pool(4).connect_with(options.read_only(true)).await?;
        Ok(Self { writer, reader, times, changes: Changes::default() })
    }

    /// Forgets answers and intents older than their time to live.
    pub async fn prune(&self) -> Result<u64, sqlx::Error> {
        let before = |ttl: Option<Duration>| {
            let ttl = ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
            ttl.map(|ttl| Timestamp::now().millis().saturating_sub(ttl))
        };
        let pruned = sqlx::query(
            "DELETE FROM requests
             WHERE created_at < CASE WHEN answer IS NULL THEN ?2 ELSE ?1 END",
        )
        .bind(before(self.times.answers))
        .bind(before(self.times.intents))
        .execute(&self.writer)
        .await?;
        Ok(pruned.rows_affected())
    }

    /// Ends all connections, and with them the write-ahead log.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// Each migration is one transaction, and so is each note that one is done.
async fn migrate(writer: &SqlitePool) -> Result<(), OpenError> {
    let mut connection = writer.acquire().await?;
    connection.lock_handle().await?.set_commit_hook(|| {
        failpoint::hit("migration", "written");
        true
    });
    MIGRATIONS.run(&mut *connection).await?;
    connection.lock_handle().await?.remove_commit_hook();
    Ok(())
}

/// Connections are kept for ever: a file needs no freshness.
fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .min_connections(1)
        .max_connections(connections)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(Duration::from_secs(30))
}

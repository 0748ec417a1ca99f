//! Opens the SQLite database of a home and brings its schema up to date. A damaged database is refused and
//! left unchanged.
//!
//! The order in `Store::open` matters: check the log and the file, read-only ▸ open the writing connection ▸
//! close the one that checked ▸ migrate ▸ open the reading connections.

use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::failpoint;
use provost_actors::host::LOCAL;
use provost_actors::ids;
use provost_actors::workspace::Places;
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

use super::changes::Changes;
use super::connection::Pool;
use super::error::primary_code;
use super::former::{self, BeforeFirst};
use super::read_cache::Kept;
use super::{Refusal, RetryBudget, Sql, Store, TimesToLive, wal};

/// The migrations of `migrations/*.sql`, compiled in.
pub(super) static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// The id that was made last. Ids are UUIDv7, so the greatest text is the newest id; new ids continue after
/// it also if the clock was set back.
pub(super) const LATEST_ID: &str = "SELECT max(id) FROM (
    SELECT max(project_id) AS id FROM projects UNION ALL SELECT max(repo_id) FROM repos
    UNION ALL SELECT max(task_id) FROM tasks UNION ALL SELECT max(attempt_id) FROM attempts
    UNION ALL SELECT max(session_id) FROM sessions
    UNION ALL SELECT max(process_id) FROM processes
    UNION ALL SELECT max(run_id) FROM check_runs
    UNION ALL SELECT max(finish_id) FROM finishes
    UNION ALL SELECT max(question_id) FROM questions) ids";

/// Why a home's database can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database can't be opened: {0}")]
    Database(#[from] sqlx::Error),
    #[error(
        "the database {} is damaged ({what}). It was left as it is, and executors run on: put a \
         good copy in its place, or move it away to begin with an empty board",
        path.display()
    )]
    Damaged { path: PathBuf, what: String },
    #[error(
        "the write-ahead log {path}-wal is damaged: SQLite would forget commits that were made. It \
         was left as it is, and executors run on: keep a copy of it, then take over what can still \
         be read with `sqlite3 {path} 'PRAGMA wal_checkpoint(TRUNCATE)'`",
        path = path.display()
    )]
    LosesCommits { path: PathBuf },
    #[error(
        "the database is of a newer version of Provost (it has migration {0}); use that one. Executors \
         run on"
    )]
    Newer(i64),
    #[error(transparent)]
    BeforeFirst(#[from] BeforeFirst),
    #[error("the database's schema can't be brought up to date: {0}")]
    Migrate(MigrateError),
    #[error(
        "the database {place} can't be reached: {error}. Executors run on; look at [engine] url, \
         and at the server"
    )]
    Unreachable { place: String, error: Box<sqlx::Error> },
    #[error(
        "host {host} of the database {place} is in use by another daemon, or by the connection of one \
         that ended less than half a minute ago: start this one again then. If another machine has \
         this name, give this one another, below [host]"
    )]
    InUse { host: String, place: String },
    #[error(
        "the role of the database {place} may not make or change a board: take the role that owns it, or \
         let this one create tables and functions in its schema"
    )]
    NoRights { place: String },
    #[error(
        "the schema of the database {place} is of an older version of Provost: run `provost cluster \
         migrate` of this version first"
    )]
    Older { place: String },
    #[error(
        "the server of the database {place} lets {user} in without a password at {door}, so each agent \
         in a sandbox has the board. Set a password for the role, write scram-sha-256 in place of trust \
         or peer for it into pg_hba.conf, have the server read that (SELECT pg_reload_conf()), and \
         name a file with the password in [engine] password_file"
    )]
    NoPassword { place: String, door: String, user: String },
    #[error("it is another board than this home's")]
    OtherBoard,
    #[error("the database {place} can't hold a board: {why}")]
    Unfit { place: String, why: String },
    #[error(
        "the server of the database {place} does not show that commits outlive it: {lacking}. If it \
         is run for you and answers for that, write durability = \"managed\" below [engine]; if one \
         server without a standby is what you want, durability = \"single\""
    )]
    NotDurable { place: String, lacking: String },
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
        let checked = check(path).await?;
        make_private(path).map_err(sqlx::Error::Io)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // An answered call survives a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(super::write_retry::BUSY_TIMEOUT)
            // More than there are: none is prepared twice.
            .statement_cache_capacity(1000);
        let writer = pool(1).connect_with(options.clone()).await?;
        // Not earlier: SQLite removes the write-ahead log when the last connection closes, and the writing
        // connection would have to make the log again.
        drop(checked);
        migrate(&writer).await?;
        // After the migration: a connection reads the schema when it opens, and would read rows by the old
        // one.
        let reader = pool(4).connect_with(options.read_only(true)).await?;
        let latest: Option<String> = sqlx::query_scalar(LATEST_ID).fetch_one(&reader).await?;
        let version: String =
            sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&reader).await?;
        ids::go_on_after(&latest.unwrap_or_default());
        let opened = super::write_retry::inode(path).map_err(sqlx::Error::Io)?;
        Ok(Self {
            writer: Pool::Sqlite(writer),
            reader: Pool::Sqlite(reader),
            file: Some(Arc::new((path.to_owned(), opened))),
            engine: format!("SQLite {version}, {}", path.display()).into(),
            times,
            changes: Changes::default(),
            kept: Kept::default(),
            host: LOCAL.into(),
            places: Places::default(),
            fence: Arc::default(),
            renewals: None,
            schema: 0,
        })
    }

    /// Removes what is older than its time to live: answers, intents, calls to hosts, copies for other hosts,
    /// and parts of bundles that were never recorded. Returns how many rows were removed. The daemon calls
    /// this from time to time.
    pub async fn prune(&self) -> Result<u64, Refusal> {
        let before = |ttl: Option<Duration>| {
            let ttl = ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
            ttl.map(|ttl| Timestamp::now().millis().saturating_sub(ttl))
        };
        let sql = "DELETE FROM requests
             WHERE created_at < CASE WHEN answer IS NULL THEN CAST($2 AS BIGINT)
                                      ELSE CAST($1 AS BIGINT) END";
        let values = (before(self.times.answers), before(self.times.intents));
        let pruned = self.write(RetryBudget::Short, "pruned", async |db| db.run(sql, values).await);
        let settled = async {
            match before(self.times.settled) {
                Some(before) => self.prune_settled(before).await,
                None => Ok(0),
            }
        };
        // One that fails keeps none of the others from their work.
        let pruned = [
            pruned.await,
            self.prune_host_calls().await,
            settled.await,
            self.prune_bundles().await,
        ];
        pruned.into_iter().sum()
    }

    /// Closes all connections. SQLite then removes the write-ahead log.
    pub async fn close(&self) {
        if let Some(renewals) = &self.renewals {
            renewals.close().await;
        }
        self.reader.close().await;
        self.writer.close().await;
    }
}

/// Makes the database readable for its owner only; SQLite gives the same mode to its write-ahead log and its
/// shared memory. Makes an empty file where none exists.
fn make_private(path: &Path) -> std::io::Result<()> {
    let database = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    database.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// Checks that the database is whole, without a change to it. Returns the connection that checked, or `None`
/// where no database exists yet.
async fn check(path: &Path) -> Result<Option<SqliteConnection>, OpenError> {
    let database = path.to_owned();
    let read = move || {
        let is_there = std::fs::metadata(&database).is_ok_and(|file| file.len() > 0);
        (is_there, wal::is_damaged(&database))
    };
    let (is_there, is_lost) =
        tokio::task::spawn_blocking(read).await.map_err(|_| sqlx::Error::WorkerCrashed)?;
    if is_lost {
        return Err(OpenError::LosesCommits { path: path.to_owned() });
    }
    if !is_there {
        return Ok(None);
    }
    let said = async {
        let options = SqliteConnectOptions::new().filename(path).read_only(true);
        let mut reading = options.connect().await?;
        let said: String =
            sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut reading).await?;
        Ok((said, reading))
    };
    match said.await {
        Ok((said, reading)) if said == "ok" => Ok(Some(reading)),
        Ok((what, _)) => Err(OpenError::Damaged { path: path.to_owned(), what }),
        // `SQLITE_CORRUPT` with its extensions, and `SQLITE_NOTADB`
        // (<https://www.sqlite.org/rescode.html>).
        Err(error) if matches!(primary_code(&error), Some(11 | 26)) => {
            Err(OpenError::Damaged { path: path.to_owned(), what: error.to_string() })
        }
        Err(error) => Err(OpenError::Database(error)),
    }
}

/// Each migration is one transaction, together with the row that records it.
async fn migrate(writer: &SqlitePool) -> Result<(), OpenError> {
    let mut connection = writer.acquire().await?;
    connection.lock_handle().await?.set_commit_hook(|| {
        failpoint::hit("migration", "written");
        true
    });
    adopt(&mut connection).await?;
    MIGRATIONS.run(&mut *connection).await?;
    connection.lock_handle().await?.remove_commit_hook();
    Ok(())
}

/// Marks a board of a build before the first release as one of this version, if that board has all
/// migrations of those builds.
async fn adopt(writer: &mut SqliteConnection) -> Result<(), OpenError> {
    let sql = "SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
    if sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut *writer).await? == 0 {
        return Ok(());
    }
    let recorded: Vec<_> = sqlx::query_as(former::RECORDED).fetch_all(&mut *writer).await?;
    if let Some(first) = former::adopted(&recorded, &MIGRATIONS)? {
        let mut changing = writer.begin().await?;
        sqlx::query(former::FORGET).bind(first.version).execute(&mut *changing).await?;
        let adopting = sqlx::query(former::ADOPT).bind(first.version).bind(&*first.checksum);
        adopting.bind(&*first.description).execute(&mut *changing).await?;
        changing.commit().await?;
    }
    Ok(())
}

/// All connections are opened at once and stay open, so that a daemon without a free file
/// descriptor can still read.
fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .min_connections(connections)
        .max_connections(connections)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(Duration::from_secs(30))
        // A file does not hang up: a ping would only be one more way to the connection's thread.
        .test_before_acquire(false)
        // SQLite itself rolls back what a full disk cut off; then sqlx's own rollback
        // fails, and the connection would stay in a transaction.
        .before_acquire(|connection, _| {
            Box::pin(std::future::ready(Ok(!connection.is_in_transaction())))
        })
}

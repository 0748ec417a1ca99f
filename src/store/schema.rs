//! The schema of a board on PostgreSQL. The role that owns the board brings the schema up to date, while
//! daemons of an older version may be running.

use std::sync::LazyLock;
use std::time::Duration;

use provost_actors::failpoint;
use sqlx::migrate::{MigrateError, Migration, Migrator};
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep};

use super::error::{is_contended, is_forbidden};
use super::former;
use super::open::OpenError;
use super::pg_transaction::lock_schema;

/// How long a migration is tried while others block it: a backup that reads, or another daemon that
/// migrates.
const LIMIT: Duration = Duration::from_mins(5);

/// The pause between two tries, in which others get the locks that they wait for.
const PAUSE: Duration = Duration::from_secs(1);

/// The migrations that this version knows.
pub static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrations = sqlx::migrate!("migrations/postgres");
    // `lock_schema` serializes migrations. The lock of sqlx belongs to the session, and would outlive a
    // try that failed.
    migrations.set_locking(false);
    migrations
});

/// The number of the newest of these migrations; 0 if the list is empty.
pub fn newest(migrations: &Migrator) -> i64 {
    migrations.iter().map(|it| it.version).max().unwrap_or_default()
}

/// Brings the schema up to date; the role must own it. Daemons of an older version wait with their writes
/// meanwhile, find the newer schema with their next write, and stop.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    migrations: &Migrator,
    place: &str,
) -> Result<(), OpenError> {
    let until = Instant::now() + LIMIT;
    let adopted = former::adopted(&recorded(connection).await?, migrations)?;
    loop {
        let error = match bring_up_to_date(connection, migrations, adopted).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match said(&error) {
            Some(said) if is_forbidden(said) => {
                return Err(OpenError::NoRights { place: place.to_owned() });
            }
            Some(said) if is_contended(said) && Instant::now() < until => {
                tracing::warn!(%error, "others use what a migration is to change: it is tried again");
                sleep(PAUSE).await;
            }
            _ => return Err(error.into()),
        }
    }
}

/// Runs all missing migrations in one transaction: a daemon that is killed in the middle leaves nothing.
async fn bring_up_to_date(
    connection: &mut PgConnection,
    migrations: &Migrator,
    adopted: Option<&Migration>,
) -> Result<(), MigrateError> {
    let applied = versions(&recorded(connection).await?);
    if adopted.is_none() && migrations.iter().all(|it| applied.contains(&it.version)) {
        // This refuses a schema that is newer, or whose migrations have other checksums.
        return migrations.run(connection).await;
    }
    let mut changing = connection.begin().await?;
    lock_schema(&mut changing).await?;
    if let Some(first) = adopted {
        // If another daemon has adopted the board meanwhile, these statements repeat what it did.
        sqlx::query(former::FORGET).bind(first.version).execute(&mut *changing).await?;
        let adopting = sqlx::query(former::ADOPT).bind(first.version).bind(&*first.checksum);
        adopting.bind(&*first.description).execute(&mut *changing).await?;
    }
    migrations.run(&mut *changing).await?;
    failpoint::hit("migration", "written");
    Ok(changing.commit().await?)
}

/// The server's error, if a statement of a migration failed.
fn said(error: &MigrateError) -> Option<&sqlx::Error> {
    match error {
        MigrateError::Execute(said) | MigrateError::ExecuteMigration(said, _) => Some(said),
        _ => None,
    }
}

/// Refuses a schema that is older, newer or incomplete; changes nothing.
pub(super) async fn check(
    connection: &mut PgConnection,
    migrations: &Migrator,
    place: &str,
) -> Result<(), OpenError> {
    let recorded = recorded(connection).await?;
    let older = || OpenError::Older { place: place.to_owned() };
    if former::adopted(&recorded, migrations)?.is_some() {
        return Err(older());
    }
    let found = versions(&recorded);
    if let Some(newer) = found.iter().find(|it| !migrations.version_exists(**it)) {
        return Err(OpenError::Newer(*newer));
    }
    let is_whole = migrations.iter().all(|it| found.contains(&it.version));
    if is_whole { Ok(()) } else { Err(older()) }
}

/// The id of the board in the connection's schema, of whatever version; `None`: the schema has no board.
pub(super) async fn board(connection: &mut PgConnection) -> sqlx::Result<Option<String>> {
    let sql = "SELECT to_regclass('cluster') IS NOT NULL";
    if !sqlx::query_scalar(sql).fetch_one(&mut *connection).await? {
        return Ok(None);
    }
    let sql = "SELECT to_jsonb(c) ->> 'board_id' FROM cluster c";
    sqlx::query_scalar(sql).fetch_one(connection).await
}

fn versions(recorded: &[(i64, Vec<u8>)]) -> Vec<i64> {
    recorded.iter().map(|(version, _)| *version).collect()
}

/// The migrations that the schema has, each with its checksum; empty: none was ever made.
async fn recorded(connection: &mut PgConnection) -> sqlx::Result<Vec<(i64, Vec<u8>)>> {
    let sql = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
    if !sqlx::query_scalar(sql).fetch_one(&mut *connection).await? {
        return Ok(Vec::new());
    }
    sqlx::query_as(former::RECORDED).fetch_all(connection).await
}

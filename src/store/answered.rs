//! Answers of a PostgreSQL server: in time, or not at all; transactions that write one at a time; and
//! commits whose answer was lost.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Row, Transaction};
use tokio::time::{sleep, timeout};

use super::dialect::POSTGRES;
use super::error::is_unavailable;

/// The first number of the advisory lock that transactions take to write; the second is of the
/// schema. ("PROV")
const WRITE_CLASS: i32 = 0x5052_4f56;

/// How long the outcome of a commit is asked for whose answer was lost.
const OUTCOME_LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to answer a statement.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The id of the transaction, if it has written something. Then all daemons of the board get the
/// name of the host, `$1`, once it is committed; NULL: they do not.
const TOLD: &str = "SELECT CAST(pg_current_xact_id_if_assigned() AS text),
    CASE WHEN pg_current_xact_id_if_assigned() IS NOT NULL AND $1 IS NOT NULL
         THEN pg_notify('provost_' || md5(current_schema()), $1) END";

/// What a server answers, in time: one that is cut off says nothing at all.
pub async fn answered<T>(asked: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(silent()))
}

/// What became of the begin of a transaction that writes.
pub enum Begun<T> {
    Writing(T),
    /// The host is not this incarnation's any more.
    NotOurs,
    /// The board has this migration, which this version of Provost does not know.
    Newer(i64),
}

/// Takes the lock under which the daemons of a board write, for as long as the session lasts.
pub async fn lock_writes(connection: &mut PgConnection) -> sqlx::Result<()> {
    let lock = format!("SELECT pg_advisory_lock({WRITE_CLASS}, hashtext(current_schema()))");
    answered(sqlx::raw_sql(AssertSqlSafe(lock)).execute(connection)).await.map(drop)
}

/// Begins a transaction that writes. Of all daemons one does at a time, as in a file: numbers that are
/// counted up are in the order of the commits. With an incarnation it makes sure that the host is still
/// that one's, and that the schema is not newer than `schema`.
pub async fn begin_write(
    pool: &PgPool,
    host: &str,
    incarnation: Option<u64>,
    schema: i64,
) -> sqlx::Result<Begun<Transaction<'static, Postgres>>> {
    let mut writing = pool.begin_with(POSTGRES.begin_write).await?;
    let lock = format!("SELECT pg_advisory_xact_lock({WRITE_CLASS}, hashtext(current_schema()))");
    let Some(incarnation) = incarnation else {
        let locking = sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *writing);
        answered(locking).await?;
        return Ok(Begun::Writing(writing));
    };
    // One round trip, and two statements: the second one sees what was committed before the lock was
    // taken.
    let host = host.replace('\'', "''");
    let sql = format!(
        "{lock}; SELECT count(*), (SELECT max(version) FROM _sqlx_migrations) FROM hosts
         WHERE host_id = '{host}' AND incarnation = {incarnation} AND fenced_at IS NULL"
    );
    let rows = answered(sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut *writing)).await?;
    let Some(row) = rows.last() else { return Ok(Begun::NotOurs) };
    let (found, newest): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok(match found {
        _ if newest > schema => Begun::Newer(newest),
        1 => Begun::Writing(writing),
        _ => Begun::NotOurs,
    })
}

/// Commits, and tells the daemons of other hosts that this one, if it is given, has written something.
/// Where the connection ends before the answer, this asks the server what became of the transaction: a
/// caller that gets an error does the same again.
pub async fn commit(
    mut writing: Transaction<'static, Postgres>,
    pool: &PgPool,
    host: Option<&str>,
) -> sqlx::Result<()> {
    let asked = sqlx::query_scalar(TOLD).bind(host).fetch_one(&mut *writing);
    let id: Option<String> = answered(asked).await?;
    match answered(writing.commit()).await {
        Err(error) if is_unavailable(&error) => match id {
            Some(id) => outcome(&id, error, pool).await,
            // It has written nothing.
            None => Ok(()),
        },
        done => done,
    }
}

async fn outcome(id: &str, error: sqlx::Error, pool: &PgPool) -> sqlx::Result<()> {
    let sql = format!("SELECT pg_xact_status(CAST('{id}' AS xid8))");
    let asking = async {
        loop {
            let sql = AssertSqlSafe(sql.as_str());
            let status: sqlx::Result<Option<String>> = match pool.acquire().await {
                Ok(mut connection) => sqlx::query_scalar(sql).fetch_one(&mut *connection).await,
                Err(error) => Err(error),
            };
            match status.as_ref().map(Option::as_deref) {
                Ok(Some("committed")) => return true,
                Ok(Some("aborted") | None) => return false,
                // In progress, or the server is away.
                Ok(Some(_)) | Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    };
    match timeout(OUTCOME_LIMIT, asking).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(error),
        Err(_) => {
            tracing::warn!(%error, "what became of a commit is not known");
            Err(error)
        }
    }
}

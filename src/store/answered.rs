//! Answers of a PostgreSQL server: in time, or not at all; transactions that write one at a time; and
//! commits whose answer was lost.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgPool, Postgres, Row, Transaction};
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
/// name of the host, `$1`, once it is committed.
const TOLD: &str = "SELECT CAST(pg_current_xact_id_if_assigned() AS text),
    CASE WHEN pg_current_xact_id_if_assigned() IS NOT NULL
         THEN pg_notify('provost_' || md5(current_schema()), $1) END";

/// What a server answers, in time: one that is cut off says nothing at all.
pub async fn answered<T>(asked: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(silent()))
}

/// Begins a transaction that writes. Of all daemons one does at a time, as in a file: numbers that are
/// counted up are in the order of the commits. `None`: a host that is given is not this incarnation's
/// any more.
pub async fn begin_write(
    pool: &PgPool,
    host: &str,
    incarnation: Option<u64>,
) -> sqlx::Result<Option<Transaction<'static, Postgres>>> {
    let mut writing = pool.begin_with(POSTGRES.begin_write).await?;
    let lock = format!("SELECT pg_advisory_xact_lock({WRITE_CLASS}, hashtext(current_schema()))");
    let Some(incarnation) = incarnation else {
        let locking = sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *writing);
        answered(locking).await?;
        return Ok(Some(writing));
    };
    // One round trip, and two statements: the second one sees what was committed before the lock was
    // taken.
    let host = host.replace('\'', "''");
    let sql = format!(
        "{lock}; SELECT count(*) FROM hosts
         WHERE host_id = '{host}' AND incarnation = {incarnation} AND fenced_at IS NULL"
    );
    let rows = answered(sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut *writing)).await?;
    let found: i64 = rows.last().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
    Ok((found == 1).then_some(writing))
}

/// Commits, and tells the daemons of other hosts that there is something new. Where the connection
/// ends before the answer, this asks the server what became of the transaction: a caller that
/// gets an error does the same again.
pub async fn commit(
    mut writing: Transaction<'static, Postgres>,
    pool: &PgPool,
    host: &str,
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

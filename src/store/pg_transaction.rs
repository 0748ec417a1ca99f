//! Transactions on PostgreSQL: a limit for each answer of the server, how transactions that write begin,
//! and commits whose answer was lost.
//!
//! Advisory locks, in the order in which they are taken:
//!
//! ```text
//!  lock    key             taken by                                   held until
//!  host    host + schema   the writing connection (`postgres.rs`)     its session ends
//!  write   schema          `OneByOne`, a migration                    the transaction ends
//!  schema  schema          `Beside` (shared, without waiting),        the transaction ends
//!                          a migration (alone)
//! ```

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Row, Transaction};
use tokio::time::{sleep, timeout};

use super::dialect::POSTGRES;
use super::error::is_unavailable;

/// The first number of the advisory lock of writes; the second is the hash of the schema's name. ("PROV")
const WRITE_CLASS: i32 = 0x5052_4f56;

/// The first number of the advisory lock of the schema: transactions beside the order share it, and a
/// migration holds it alone. ("PROX")
const SCHEMA_CLASS: i32 = 0x5052_4f58;

/// How long the server is asked for the outcome of a commit whose answer was lost.
const OUTCOME_LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to answer a statement.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The id of the transaction, if it has written something; in that case the commit also sends the name of
/// the host, `$1`, to all daemons of the board. `$1` is NULL: nothing is sent.
const COMMIT_NOTICE: &str = "SELECT CAST(pg_current_xact_id_if_assigned() AS text),
    CASE WHEN pg_current_xact_id_if_assigned() IS NOT NULL AND $1 IS NOT NULL
         THEN pg_notify('provost_' || md5(current_schema()), $1) END";

/// Waits for an answer of the server, at most [`ANSWER_LIMIT`]; then the error is a timeout. A server whose
/// network was cut off sends no error of its own.
pub async fn answered<T>(asked: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(silent()))
}

/// Settings of each connection. Client and server notice within half a minute when the network between them
/// is cut off. Compilation (`jit`) is off, because the statements are too small for it.
pub async fn prepare(connection: &mut PgConnection) -> sqlx::Result<()> {
    let sql = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;
               SET tcp_keepalives_count = 3; SET tcp_user_timeout = 25000; SET jit = off";
    sqlx::raw_sql(sql).execute(connection).await.map(drop)
}

/// Which writes of other daemons a transaction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All with this order: one daemon writes at a time, as in a file. So numbers that a statement counts up
    /// are in the order of the commits.
    OneByOne,
    /// None, except for writes of the same rows. It runs on a reading connection.
    Beside,
}

/// The daemon that writes, as the begin of a transaction checks it.
pub struct Writer<'a> {
    pub host: &'a str,
    /// The incarnation that the host must still have; `None`: any.
    pub incarnation: Option<u64>,
    /// The newest migration that this daemon knows.
    pub schema: i64,
}

/// The result of the begin of a transaction that writes.
pub enum Begun<T> {
    /// It has begun.
    Writing(T),
    /// The host has been given up, or another daemon has registered it.
    NotOurs,
    /// The board has this migration, which this version of Provost does not know.
    Newer(i64),
    /// Another daemon is changing the schema now.
    Changing,
}

impl<T> Begun<T> {
    /// Changes the transaction of [`Begun::Writing`]; all else stays.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Begun<U> {
        match self {
            Self::Writing(it) => Begun::Writing(change(it)),
            Self::NotOurs => Begun::NotOurs,
            Self::Newer(version) => Begun::Newer(version),
            Self::Changing => Begun::Changing,
        }
    }
}

/// Takes the locks of writes and of the schema until the transaction ends, so that no other daemon writes.
/// The limits end the transaction of a daemon that waits too long for a lock, or hangs with the locks.
pub async fn lock_schema(changing: &mut PgConnection) -> sqlx::Result<()> {
    let lock = format!(
        "SET LOCAL lock_timeout = 10000; SET LOCAL idle_in_transaction_session_timeout = 15000;
         SELECT pg_advisory_xact_lock({WRITE_CLASS}, hashtext(current_schema()));
         SELECT pg_advisory_xact_lock({SCHEMA_CLASS}, hashtext(current_schema()))"
    );
    answered(sqlx::raw_sql(AssertSqlSafe(lock)).execute(changing)).await.map(drop)
}

/// Begins a transaction that writes. It checks that the host is still the writer's, and that the schema is
/// not newer. Until the transaction ends, no migration begins; with [`Order::OneByOne`], no other daemon
/// gives the host up either.
pub async fn begin_write(
    pool: &PgPool,
    order: Order,
    writer: &Writer<'_>,
) -> sqlx::Result<Begun<Transaction<'static, Postgres>>> {
    let mut writing = answered(pool.begin_with(begin(order))).await?;
    Ok(look(&mut writing, order, writer).await?.map(|()| writing))
}

/// The same on a connection of the caller, who ends the transaction with [`commit_on`] or closes the
/// connection.
pub async fn begin_on(
    connection: &mut PgConnection,
    order: Order,
    writer: &Writer<'_>,
) -> sqlx::Result<Begun<()>> {
    answered(sqlx::raw_sql(begin(order)).execute(&mut *connection)).await?;
    look(connection, order, writer).await
}

/// Commits a transaction of [`begin_on`]. If the answer is lost, the caller does not learn the outcome.
pub async fn commit_on(connection: &mut PgConnection) -> sqlx::Result<()> {
    answered(sqlx::raw_sql("COMMIT").execute(connection)).await.map(drop)
}

/// The statement that begins the transaction. `Beside` runs on a reading connection, whose default is
/// read-only.
fn begin(order: Order) -> &'static str {
    match order {
        Order::OneByOne => POSTGRES.begin_write,
        Order::Beside => "BEGIN READ WRITE",
    }
}

/// Takes the lock of a transaction that has begun, and checks whether its writer may write.
async fn look(
    writing: &mut PgConnection,
    order: Order,
    writer: &Writer<'_>,
) -> sqlx::Result<Begun<()>> {
    if order == Order::Beside {
        // It does not wait for the lock, nor for tables that a migration is changing: it would keep a
        // connection from the reads.
        let sql = format!(
            "SELECT pg_try_advisory_xact_lock_shared({SCHEMA_CLASS}, hashtext(current_schema()))"
        );
        let locking = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *writing);
        let is_free: bool = answered(locking).await?;
        if !is_free {
            return Ok(Begun::Changing);
        }
    }
    let lock = match order {
        Order::OneByOne => {
            format!("pg_advisory_xact_lock({WRITE_CLASS}, hashtext(current_schema()))")
        }
        Order::Beside => "true".to_owned(),
    };
    // One round trip with two statements: the second statement sees what was committed before the first
    // one got the lock.
    let (host, incarnation) = (writer.host.replace('\'', "''"), writer.incarnation.unwrap_or(0));
    let sql = format!(
        "SELECT CAST({lock} AS text);
         SELECT (SELECT count(*) FROM hosts WHERE host_id = '{host}'
                     AND incarnation = {incarnation} AND fenced_at IS NULL),
                (SELECT max(version) FROM _sqlx_migrations)"
    );
    let rows = answered(sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(writing)).await?;
    let [_, found] = &rows[..] else { return Err(sqlx::Error::RowNotFound) };
    let (found, newest): (i64, i64) = (found.try_get(0)?, found.try_get(1)?);
    Ok(match found {
        _ if newest > writer.schema => Begun::Newer(newest),
        0 if writer.incarnation.is_some() => Begun::NotOurs,
        _ => Begun::Writing(()),
    })
}

/// Commits. With `host`, the daemons of the other hosts are told that this one has written something. If the
/// connection ends before the answer, the server is asked for the outcome of the transaction: a caller that
/// got an error would do the same work a second time.
pub async fn commit(
    mut writing: Transaction<'static, Postgres>,
    pool: &PgPool,
    host: Option<&str>,
) -> sqlx::Result<()> {
    let asked = sqlx::query_scalar(COMMIT_NOTICE).bind(host).fetch_one(&mut *writing);
    let id: Option<String> = answered(asked).await?;
    match answered(writing.commit()).await {
        Err(error) if is_unavailable(&error) => match id {
            Some(id) => outcome(&id, error, pool).await,
            // The transaction has written nothing, so its loss changes nothing.
            None => Ok(()),
        },
        done => done,
    }
}

/// Asks the server for the outcome of a transaction, for at most [`OUTCOME_LIMIT`]. Gives `error` if it was
/// not committed, or if the outcome stays unknown.
async fn outcome(id: &str, error: sqlx::Error, pool: &PgPool) -> sqlx::Result<()> {
    let sql = format!("SELECT pg_xact_status(CAST('{id}' AS xid8))");
    let asking = async {
        loop {
            let sql = AssertSqlSafe(sql.as_str());
            let status: sqlx::Result<Option<String>> = match pool.acquire().await {
                Ok(mut connection) => {
                    answered(sqlx::query_scalar(sql).fetch_one(&mut *connection)).await
                }
                Err(error) => Err(error),
            };
            match status.as_ref().map(Option::as_deref) {
                Ok(Some("committed")) => return true,
                Ok(Some("aborted") | None) => return false,
                // The transaction is still running, or the server is away.
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

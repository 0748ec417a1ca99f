//! Answers of a PostgreSQL server: in time, or not at all; how transactions that write begin; and
//! commits whose answer was lost.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Row, Transaction};
use tokio::time::{sleep, timeout};

use super::dialect::POSTGRES;
use super::error::is_unavailable;

/// The first number of the advisory lock that transactions take to write; the second is of the
/// schema. ("PROV")
const WRITE_CLASS: i32 = 0x5052_4f56;

/// The same of the lock that those which write beside them share, and that a migration has alone.
/// ("PROX")
const SCHEMA_CLASS: i32 = 0x5052_4f58;

/// How long the outcome of a commit is asked for whose answer was lost.
const OUTCOME_LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to answer a statement.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The id of the transaction, if it has written something. Then all daemons of the board get the
/// name of the host, `$1`, once it is committed; NULL: they do not.
const COMMIT_NOTICE: &str = "SELECT CAST(pg_current_xact_id_if_assigned() AS text),
    CASE WHEN pg_current_xact_id_if_assigned() IS NOT NULL AND $1 IS NOT NULL
         THEN pg_notify('provost_' || md5(current_schema()), $1) END";

/// What a server answers, in time: one that is cut off says nothing at all.
pub async fn answered<T>(asked: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(silent()))
}

/// A server that is cut off is noticed within half a minute, and so is a daemon by its server. The
/// statements are too small for compilation.
pub async fn prepare(connection: &mut PgConnection) -> sqlx::Result<()> {
    let sql = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;
               SET tcp_keepalives_count = 3; SET tcp_user_timeout = 25000; SET jit = off";
    sqlx::raw_sql(sql).execute(connection).await.map(drop)
}

/// Which writes of other daemons a transaction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All that have this order: of all daemons one writes at a time, as in a file. Numbers that are
    /// counted up are in the order of the commits.
    OneByOne,
    /// None, apart from those of the same rows. It is on a connection that reads otherwise.
    Beside,
}

/// Who writes.
pub struct Writer<'a> {
    pub host: &'a str,
    /// The one that the host has to have still; `None`: any.
    pub incarnation: Option<u64>,
    /// The newest migration that is known here.
    pub schema: i64,
}

/// What became of the begin of a transaction that writes.
pub enum Begun<T> {
    Writing(T),
    /// The host is not this incarnation's any more.
    NotOurs,
    /// The board has this migration, which this version of Provost does not know.
    Newer(i64),
    /// Another daemon changes the schema now.
    Changing,
}

impl<T> Begun<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Begun<U> {
        match self {
            Self::Writing(it) => Begun::Writing(change(it)),
            Self::NotOurs => Begun::NotOurs,
            Self::Newer(version) => Begun::Newer(version),
            Self::Changing => Begun::Changing,
        }
    }
}

/// Takes the locks of the board until the transaction ends, so that no other one writes. It does not hold
/// up the others for long, neither where it stands still nor where it waits itself.
pub async fn lock_schema(changing: &mut PgConnection) -> sqlx::Result<()> {
    let lock = format!(
        "SET LOCAL lock_timeout = 10000; SET LOCAL idle_in_transaction_session_timeout = 15000;
         SELECT pg_advisory_xact_lock({WRITE_CLASS}, hashtext(current_schema()));
         SELECT pg_advisory_xact_lock({SCHEMA_CLASS}, hashtext(current_schema()))"
    );
    answered(sqlx::raw_sql(AssertSqlSafe(lock)).execute(changing)).await.map(drop)
}

/// Begins a transaction that writes. It makes sure that the host is still the writer's, and that the
/// schema is not newer. No migration begins before the transaction ends; and of those that write one by one
/// none that gives the host up.
pub async fn begin_write(
    pool: &PgPool,
    order: Order,
    writer: &Writer<'_>,
) -> sqlx::Result<Begun<Transaction<'static, Postgres>>> {
    let mut writing = answered(pool.begin_with(begin(order))).await?;
    Ok(look(&mut writing, order, writer).await?.map(|()| writing))
}

/// The same on a connection of the caller's, who ends it with [`commit_on`], or closes it.
pub async fn begin_on(
    connection: &mut PgConnection,
    order: Order,
    writer: &Writer<'_>,
) -> sqlx::Result<Begun<()>> {
    answered(sqlx::raw_sql(begin(order)).execute(&mut *connection)).await?;
    look(connection, order, writer).await
}

pub async fn commit_on(connection: &mut PgConnection) -> sqlx::Result<()> {
    answered(sqlx::raw_sql("COMMIT").execute(connection)).await.map(drop)
}

fn begin(order: Order) -> &'static str {
    match order {
        Order::OneByOne => POSTGRES.begin_write,
        Order::Beside => "BEGIN READ WRITE",
    }
}

/// Takes the lock of a transaction that has begun, and looks whether it may write.
async fn look(
    writing: &mut PgConnection,
    order: Order,
    writer: &Writer<'_>,
) -> sqlx::Result<Begun<()>> {
    if order == Order::Beside {
        // It does not wait, neither for this lock nor for the tables that a migration changes: it would
        // keep a connection from reads.
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
    // One round trip, and two statements: the second one sees what was committed before the lock was
    // taken.
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

/// Commits, and tells the daemons of other hosts that this one, if it is given, has written something.
/// Where the connection ends before the answer, this asks the server what became of the transaction: a
/// caller that gets an error does the same again.
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
                Ok(mut connection) => {
                    answered(sqlx::query_scalar(sql).fetch_one(&mut *connection)).await
                }
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

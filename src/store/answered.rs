//! Answers of a PostgreSQL server: in time, or not at all; and commits whose answer was lost.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgPool, Postgres, Transaction};
use tokio::time::{sleep, timeout};

use super::error::is_unavailable;
use super::follow::TOLD;

/// How long the outcome of a commit is asked for whose answer was lost.
const OUTCOME_LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to answer a statement.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// What a server answers, in time: one that is cut off says nothing at all.
pub async fn answered<T>(asked: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(silent()))
}

/// Commits, and tells the daemons of other hosts that there is something new. Where the connection
/// ends before the answer, the server is asked what became of the
/// transaction: whoever is told that it failed does the same again.
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

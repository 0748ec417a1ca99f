//! Why the store could not do what a caller asked for. Inside the store, `?` turns any error into a
//! [`StoreError`]. [`read`](super::Store::read), [`write`](super::Store::write) and
//! [`keyed`](super::Store::keyed) turn that into the [`Refusal`] of the caller.

use provost_actors::refusal::{Code, Refusal};
use provost_actors::retry;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

/// The advice to a caller of a locked database: seconds until the next try.
const RETRY_AFTER_SECS: u64 = 2;

/// The hint for a board on a server.
const AT_THE_SERVER: &str =
    "Look at the PostgreSQL server that [engine] url names, then call the tool again.";

/// An error inside the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// A stored value is not the JSON it should be, or a value can't be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The call itself is wrong, or the state of what it names does not allow it.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
}

impl StoreError {
    /// Whether the cause may be a schema that another version has changed: the statement, or the type that
    /// its rows are read into, does not fit.
    pub fn misfits_schema(&self) -> bool {
        match self {
            // The class 42: unknown names and wrong types. 0A000 (feature_not_supported): the columns have
            // changed since the statement was prepared.
            Self::Database(error) => {
                sql_state(error).is_some_and(|state| state.starts_with("42") || state == "0A000")
            }
            Self::Json(_) => true,
            Self::Refused(_) => false,
        }
    }
}

/// The result of a step inside the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Database(error) => fault(error),
            StoreError::Json(error) => {
                Self::internal(format!("the database holds a value that can't be read: {error}"))
            }
            StoreError::Refused(refusal) => *refusal,
        }
    }
}

/// The refusal of a failed statement: a full disk, a lock, missing rights, an absent database, or a fault of
/// Provost. Tells the retries of the actors that the store is away, where that is the cause.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
pub(super) fn fault(error: sqlx::Error) -> Refusal {
    if is_of_a_server(&error) && is_unavailable(&error) {
        retry::store_is_away();
    }
    if is_full(&error) {
        let message = format!("the database can't be written: {error}");
        let refusal = Refusal::new(Code::StorageFull, message);
        return if is_of_a_server(&error) { refusal.hint(AT_THE_SERVER) } else { refusal };
    }
    if matches!(error, sqlx::Error::PoolTimedOut) {
        tracing::warn!(%error, "the database is busy");
        return locked("the database is busy with other calls or away, and did not get free");
    }
    if is_contended(&error) {
        return locked("another program holds what the call needs of the database");
    }
    if is_forbidden(&error) {
        tracing::warn!(%error, "the role of this daemon may not do this");
        let message = format!("the role of this daemon at the database may not do this: {error}");
        return Refusal::new(Code::NotPermitted, message)
            .hint("Write the url of the role that owns the board below [engine] in config.toml.");
    }
    tracing::error!(%error, "the store failed");
    if is_unavailable(&error) {
        let message = format!("the database can't be used: {error}");
        let refusal = Refusal::new(Code::DbUnavailable, message);
        return if is_of_a_server(&error) { refusal.hint(AT_THE_SERVER) } else { refusal };
    }
    Refusal::internal(format!("the store failed: {error}"))
}

/// Whether the error is one of PostgreSQL, or of the connection to it.
fn is_of_a_server(error: &sqlx::Error) -> bool {
    use sqlx::Error::{Configuration, Io, Tls};
    sql_state(error).is_some() || matches!(error, Io(_) | Tls(_) | Configuration(_))
}

/// The role may not do this: insufficient_privilege.
pub(super) fn is_forbidden(error: &sqlx::Error) -> bool {
    sql_state(error).is_some_and(|state| state == "42501")
}

/// The disk of the database is full.
fn is_full(error: &sqlx::Error) -> bool {
    // SQLITE_FULL, and IOERR_WRITE, _FSYNC, _TRUNCATE or _SHMSIZE that a full disk
    // gives too (https://www.sqlite.org/rescode.html).
    matches!(sqlite_code(error), Some(13 | 778 | 1034 | 1546 | 4874))
        // disk_full (<https://www.postgresql.org/docs/current/errcodes-appendix.html>)
        || sql_state(error).is_some_and(|state| state == "53100")
}

/// Other transactions block this one: serialization_failure, deadlock_detected, lock_not_available.
pub(super) fn is_contended(error: &sqlx::Error) -> bool {
    sql_state(error).is_some_and(|state| matches!(state.as_str(), "40001" | "40P01" | "55P03"))
}

/// The database can't be used now, or not at all.
pub(super) fn is_unavailable(error: &sqlx::Error) -> bool {
    let is_down = |state: String| {
        // Exceptions of the connection, interventions of an operator, too few resources, and a
        // server or a transaction that takes no writes.
        ["08", "57P", "53"].iter().any(|class| state.starts_with(class)) || state == "25006"
    };
    // SQLITE_READONLY, _IOERR, _CORRUPT, _CANTOPEN and _NOTADB with their extensions
    // (<https://www.sqlite.org/rescode.html>), or no connection at all.
    matches!(primary_code(error), Some(8 | 10 | 11 | 14 | 26))
        || sql_state(error).is_some_and(is_down)
        || matches!(
            error,
            sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
                | sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Configuration(_)
        )
}

/// SQLite's result code without its extension; `None`: the error is not SQLite's.
pub(super) fn primary_code(error: &sqlx::Error) -> Option<u32> {
    sqlite_code(error).map(|code| code & 0xff)
}

fn sqlite_code(error: &sqlx::Error) -> Option<u32> {
    let error = error.as_database_error()?;
    error.try_downcast_ref::<SqliteError>()?;
    error.code()?.parse().ok()
}

/// PostgreSQL's code of an error (SQLSTATE); `None`: the error is not PostgreSQL's.
fn sql_state(error: &sqlx::Error) -> Option<String> {
    let error = error.as_database_error()?;
    Some(error.try_downcast_ref::<PgDatabaseError>()?.code().to_owned())
}

/// The refusal of a call that is not at fault itself and works when tried again soon. Tells the retries of
/// the actors that the store is away.
pub(super) fn locked(message: &str) -> Refusal {
    retry::store_is_away();
    Refusal::new(Code::DbLocked, message).detail("retry_after_seconds", RETRY_AFTER_SECS)
}

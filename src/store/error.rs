//! Why the store could not do what a caller asked for. Inside the store `?` makes a
//! [`StoreError`] of any error; a caller gets the [`Refusal`] of it, made once, where
//! [`read`](super::Store::read), [`write`](super::Store::write) and
//! [`keyed`](super::Store::keyed) return.

use provost_actors::refusal::{Code, Refusal};

/// When a caller had better try again, in seconds.
const RETRY_AFTER_SECS: u64 = 2;

/// An error inside the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// A stored value is not the JSON it should be, or a value can't be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The call itself is at fault, or the state of what it names.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
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

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
pub(super) fn fault(error: sqlx::Error) -> Refusal {
    // SQLITE_FULL, and IOERR_WRITE, _FSYNC, _TRUNCATE or _SHMSIZE that a full disk
    // gives too (https://www.sqlite.org/rescode.html).
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    if matches!(code.as_deref(), Some("13" | "778" | "1034" | "1546" | "4874")) {
        return Refusal::new(Code::StorageFull, format!("the database can't be written: {error}"));
    }
    if matches!(error, sqlx::Error::PoolTimedOut) {
        tracing::warn!(%error, "the database is busy");
        return locked("the database is busy with other calls, and did not get free");
    }
    tracing::error!(%error, "the store failed");
    // SQLITE_READONLY, _IOERR, _CORRUPT, _CANTOPEN and _NOTADB with their extensions, or no
    // connection at all (<https://www.sqlite.org/rescode.html>).
    if matches!(primary_code(&error), Some(8 | 10 | 11 | 14 | 26))
        || matches!(error, sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed)
    {
        return Refusal::new(Code::DbUnavailable, format!("the database can't be used: {error}"));
    }
    Refusal::internal(format!("the store failed: {error}"))
}

pub(super) fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

/// The caller is not at fault, and the same call works soon.
pub(super) fn locked(message: &str) -> Refusal {
    Refusal::new(Code::DbLocked, message).detail("retry_after_seconds", RETRY_AFTER_SECS)
}

//! How a write begins: at once, or when whoever else holds the database (a backup,
//! a person's `sqlite3`) lets go of it, for a while.

use std::time::Duration;

use provost_actors::refusal::{Code, Refusal};
use sqlx::{Sqlite, Transaction};

use super::{Store, fault, primary_code};

/// How long SQLite itself waits in each try.
pub const BUSY_TIMEOUT: Duration = Duration::from_millis(250);
/// The pauses of a caller that waits for its answer: five tries more, each later.
const CALLER: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];
/// Those of an owner that has to write what is true: half a minute in all.
const OWNER: [Duration; 60] = [Duration::from_millis(250); 60];
/// When a caller had better try again, in seconds.
const RETRY_AFTER_SECS: u64 = 2;

/// Nobody's fault, and over soon.
pub(super) fn locked(message: &str) -> Refusal {
    Refusal::new(Code::DbLocked, message).detail("retry_after_seconds", RETRY_AFTER_SECS)
}

impl Store {
    /// Begins a write for a caller that waits; `db_locked` if it can't.
    pub(super) async fn writing(&self) -> Result<Transaction<'static, Sqlite>, Refusal> {
        self.begin_with_pauses(&CALLER).await
    }

    /// Begins a write that is not to fail for as little.
    pub(super) async fn writing_patiently(&self) -> Result<Transaction<'static, Sqlite>, Refusal> {
        self.begin_with_pauses(&OWNER).await
    }

    async fn begin_with_pauses(
        &self,
        pauses: &[Duration],
    ) -> Result<Transaction<'static, Sqlite>, Refusal> {
        let mut pauses = pauses.iter();
        loop {
            let error = match self.writer.begin_with("BEGIN IMMEDIATE").await {
                Ok(writing) => return Ok(writing),
                // SQLITE_BUSY (<https://www.sqlite.org/rescode.html#busy>).
                Err(error) if primary_code(&error) == Some(5) => error,
                Err(error) => return Err(fault(error)),
            };
            let Some(pause) = pauses.next() else {
                tracing::warn!(%error, "another program holds the database");
                return Err(locked("another program holds the database, and did not let go of it"));
            };
            tokio::time::sleep(*pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_others_keep_busy_is_tried_again_and_not_mended() {
        let refusal = fault(sqlx::Error::PoolTimedOut);
        assert_eq!(refusal.code, Code::DbLocked);
        assert!(refusal.details.contains_key("retry_after_seconds"), "{refusal:?}");
        assert_eq!(fault(sqlx::Error::PoolClosed).code, Code::DbUnavailable);
    }
}

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
                let message = "another program holds the database, and did not let go of it";
                return Err(Refusal::new(Code::DbLocked, message)
                    .detail("retry_after_seconds", RETRY_AFTER_SECS));
            };
            tokio::time::sleep(*pause).await;
        }
    }
}

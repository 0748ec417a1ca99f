//! How a write begins: at once, or when whoever else holds the database (a backup,
//! a person's `sqlite3`) lets go of it, for a while; and never in a file that is not
//! the home's any more.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use provost_actors::refusal::{Code, Refusal};
use sqlx::{Sqlite, Transaction};
use tokio::time::timeout;

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
/// How long one who tries again by itself waits for its turn among our own writers.
const BRIEFLY: Duration = Duration::from_secs(5);
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

    /// Begins a write for one who tries again by itself.
    pub(super) async fn writing_briefly(&self) -> Result<Transaction<'static, Sqlite>, Refusal> {
        // Given up before it has begun, a write has done nothing.
        timeout(BRIEFLY, self.begin_with_pauses(&[])).await.unwrap_or_else(|_| {
            Err(locked("the database is busy with other calls, and did not get free at once"))
        })
    }

    async fn begin_with_pauses(
        &self,
        pauses: &[Duration],
    ) -> Result<Transaction<'static, Sqlite>, Refusal> {
        self.is_in_place()?;
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

    /// That the file which is open is the home's: SQLite would go on writing to one
    /// that has been deleted or moved away, and all of that would be lost.
    fn is_in_place(&self) -> Result<(), Refusal> {
        let (path, opened) = &*self.file;
        match inode(path) {
            Ok(there) if there == *opened => Ok(()),
            Ok(_) => Err(displaced(&format!("another file stands in place of {}", path.display()))),
            Err(error) => Err(displaced(&format!("{}: {error}", path.display()))),
        }
    }
}

/// What tells a file from all others, whatever its name.
pub(super) fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

fn displaced(why: &str) -> Refusal {
    tracing::error!(why, "the database is gone");
    Refusal::new(
        Code::DbUnavailable,
        format!("the database was deleted or moved away while the daemon ran ({why})"),
    )
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

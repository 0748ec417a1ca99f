//! How a write begins, and how long it is tried: another program (a backup, a person's `sqlite3`) may hold
//! the database for a while. No write begins in a file that was moved away or replaced.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use provost_actors::failpoint;
use tokio::time::timeout;

use super::error::{is_unavailable, locked, primary_code};
use super::pg_transaction::{Begun, Order, Writer};
use super::{Code, Connection, Db, Refusal, Result, Store, fault};

/// How long SQLite itself waits for the lock in each try.
pub const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// How long a write is tried before it is refused as `db_locked`.
#[derive(Clone, Copy, Debug)]
pub(super) enum RetryBudget {
    /// Six tries with pauses of 3.1 s in total, each try of [`BUSY_TIMEOUT`]: less than 5 s.
    Short,
    /// Half a minute: for what has already happened, or what a caller can't do in another way.
    Long,
    /// One try, and 5 s to wait for our own other writes: for a writer that tries again by itself.
    OneTry,
}

impl RetryBudget {
    fn pauses(self) -> Vec<Duration> {
        let millis: &[u64] = match self {
            Self::Short => &[100, 200, 400, 800, 1600],
            Self::Long => &[250; 60],
            Self::OneTry => &[],
        };
        millis.iter().copied().map(Duration::from_millis).collect()
    }
}

impl Store {
    /// Does `work` in one transaction. If `work` fails, or the daemon dies before the commit, nothing of
    /// `work` remains. `name` names the crash points around the commit.
    pub(super) async fn write<T>(
        &self,
        budget: RetryBudget,
        name: &str,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        let mut db = self.transaction(budget).await?;
        let done = work(&mut db).await?;
        self.commit(db, name).await?;
        Ok(done)
    }

    /// Like [`write`](Self::write), but on a shared board outside the order of the other writes: for rows
    /// that carry no running number and keep their own order. It waits only for writes of the same rows, and
    /// wakes only the waiters that `work` sends hints to. On a board in a file it is a `write`.
    pub(super) async fn beside<T>(
        &self,
        budget: RetryBudget,
        name: &str,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        if !self.is_shared() {
            return self.write(budget, name, work).await;
        }
        let mut db = self.begin_write(Order::Beside, budget).await?;
        let done = work(&mut db).await?;
        failpoint::hit(name, "written");
        self.reader.commit(db, None).await.map_err(fault)?;
        failpoint::hit(name, "committed");
        Ok(done)
    }

    /// Begins a transaction in the order of the writes.
    pub(super) async fn transaction(&self, budget: RetryBudget) -> Result<Connection, Refusal> {
        let begun = self.begin_write(Order::OneByOne, budget);
        match budget {
            // This may be given up: a write that has not begun has done nothing.
            RetryBudget::OneTry => {
                timeout(Duration::from_secs(5), begun).await.unwrap_or_else(|_| {
                    Err(locked(
                        "the database is busy with other calls, and did not get free at once",
                    ))
                })
            }
            _ => begun.await,
        }
    }

    /// Begins a transaction, with the pauses of `patience` while the database is busy, a server is away, or
    /// another daemon changes the schema. A file can't come back, so its other errors are not tried again.
    pub(super) async fn begin_write(
        &self,
        order: Order,
        budget: RetryBudget,
    ) -> Result<Connection, Refusal> {
        self.is_in_place()?;
        let pool = match order {
            Order::OneByOne => &self.writer,
            Order::Beside => &self.reader,
        };
        let writer = self.as_writer();
        let mut pauses = budget.pauses().into_iter();
        loop {
            let begun = pool.begin_write(order, &writer).await;
            let may_be_soon = match &begun {
                Ok(begun) => matches!(begun, Begun::Changing),
                // A server may come back soon.
                Err(error) => is_busy(error) || self.is_shared() && is_unavailable(error),
            };
            if let Some(pause) = pauses.next().filter(|_| may_be_soon) {
                tokio::time::sleep(pause).await;
                continue;
            }
            return match begun {
                Ok(begun) => self.begun(begun),
                Err(error) if is_busy(&error) => {
                    tracing::warn!(%error, "another program holds the database");
                    Err(locked("another program holds the database, and did not let go of it"))
                }
                Err(error) => Err(fault(error)),
            };
        }
    }

    /// This daemon, as a transaction checks it when it begins.
    pub(super) fn as_writer(&self) -> Writer<'_> {
        Writer { host: &self.host, incarnation: self.fence.incarnation(), schema: self.schema }
    }

    /// The transaction that has begun, or why this daemon may not write. A daemon that lost its host, or
    /// whose version is too old for the schema, stops after this.
    pub(super) fn begun<T>(&self, begun: Begun<T>) -> Result<T, Refusal> {
        match begun {
            Begun::Writing(writing) => Ok(writing),
            Begun::NotOurs => Err(self.fence.lost(&self.host)),
            Begun::Newer(version) => Err(self.fence.outdated(version)),
            Begun::Changing => Err(locked("another daemon is changing the schema of the board")),
        }
    }

    /// Refuses if the file at the home's path is not the one that is open: SQLite would continue to write to
    /// a file that was deleted or moved away, and those writes would be lost.
    fn is_in_place(&self) -> Result<(), Refusal> {
        let Some(file) = &self.file else { return Ok(()) };
        let (path, opened) = &**file;
        match inode(path) {
            Ok(there) if there == *opened => Ok(()),
            Ok(_) => Err(displaced(&format!("another file stands in place of {}", path.display()))),
            Err(error) => Err(displaced(&format!("{}: {error}", path.display()))),
        }
    }
}

/// Device and inode, which identify a file under any name.
pub(super) fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// `SQLITE_BUSY` (<https://www.sqlite.org/rescode.html#busy>): another connection holds the lock.
fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(5)
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
    fn a_database_that_others_keep_busy_is_tried_again_and_not_repaired() {
        let refusal = fault(sqlx::Error::PoolTimedOut);
        assert_eq!(refusal.code, Code::DbLocked);
        assert!(refusal.details.contains_key("retry_after_seconds"), "{refusal:?}");
        assert_eq!(fault(sqlx::Error::PoolClosed).code, Code::DbUnavailable);
    }
}

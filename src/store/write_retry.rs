//! How a write begins, and how long it is tried: another program (a backup, a person's
//! `sqlite3`) may hold the database for a while. A write never begins in a file that is
//! not the home's any more.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use provost_actors::failpoint;
use tokio::time::timeout;

use super::error::{is_unavailable, locked, primary_code};
use super::pg_transaction::{Begun, Order, Writer};
use super::{Code, Connection, Db, Refusal, Result, Store, fault};

/// How long SQLite itself waits in each try.
pub const BUSY_TIMEOUT: Duration = Duration::from_millis(250);

/// How long a write is tried before it is refused as `db_locked`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// Six tries with pauses of 3.1 s in all, each try of [`BUSY_TIMEOUT`]: less than 5 s.
    Short,
    /// For what is true already, or what a caller has no other way to do: half a minute.
    Long,
    /// The writer tries again by itself: one try, and 5 s for its turn among our own writes.
    OneTry,
}

impl Patience {
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
    /// Does `work` in one transaction. If it fails, or the daemon dies before the commit,
    /// nothing of it was done. `name` names the crash points around the commit.
    pub(super) async fn write<T>(
        &self,
        patience: Patience,
        name: &str,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        let mut db = self.transaction(patience).await?;
        let done = work(&mut db).await?;
        self.commit(db, name).await?;
        Ok(done)
    }

    /// The same beside the transactions of the board, where hosts share it: for rows that no number
    /// counts, and that the rows themselves keep in order. It waits for no other write than one of the
    /// same row, and its commit is announced by its hints alone. On a host of its own it is a
    /// [`write`](Self::write).
    pub(super) async fn beside<T>(
        &self,
        patience: Patience,
        name: &str,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        if !self.is_shared() {
            return self.write(patience, name, work).await;
        }
        let mut db = self.begin_write(Order::Beside, patience).await?;
        let done = work(&mut db).await?;
        failpoint::hit(name, "written");
        self.reader.commit(db, None).await.map_err(fault)?;
        failpoint::hit(name, "committed");
        Ok(done)
    }

    /// Begins a write.
    pub(super) async fn transaction(&self, patience: Patience) -> Result<Connection, Refusal> {
        let begun = self.begin_write(Order::OneByOne, patience);
        match patience {
            // A write that is given up before it has begun has done nothing.
            Patience::OneTry => timeout(Duration::from_secs(5), begun).await.unwrap_or_else(|_| {
                Err(locked("the database is busy with other calls, and did not get free at once"))
            }),
            _ => begun.await,
        }
    }

    pub(super) async fn begin_write(
        &self,
        order: Order,
        patience: Patience,
    ) -> Result<Connection, Refusal> {
        self.is_in_place()?;
        let pool = match order {
            Order::OneByOne => &self.writer,
            Order::Beside => &self.reader,
        };
        let writer = self.as_writer();
        let mut pauses = patience.pauses().into_iter();
        loop {
            let begun = pool.begin_write(order, &writer).await;
            let may_be_soon = match &begun {
                Ok(begun) => matches!(begun, Begun::Changing),
                // A server may be back soon.
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

    pub(super) fn as_writer(&self) -> Writer<'_> {
        Writer { host: &self.host, incarnation: self.fence.incarnation(), schema: self.schema }
    }

    /// The transaction that has begun, if this daemon may write.
    pub(super) fn begun<T>(&self, begun: Begun<T>) -> Result<T, Refusal> {
        match begun {
            Begun::Writing(writing) => Ok(writing),
            Begun::NotOurs => Err(self.fence.lost(&self.host)),
            Begun::Newer(version) => Err(self.fence.outdated(version)),
            Begun::Changing => Err(locked("another daemon is changing the schema of the board")),
        }
    }

    /// Refuses if the open file is not the home's: SQLite would go on writing to one that
    /// was deleted or moved away, and all of that would be lost.
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

/// Device and inode: they identify a file under any name.
pub(super) fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// `SQLITE_BUSY` (<https://www.sqlite.org/rescode.html#busy>).
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
    fn a_database_that_others_keep_busy_is_tried_again_and_not_mended() {
        let refusal = fault(sqlx::Error::PoolTimedOut);
        assert_eq!(refusal.code, Code::DbLocked);
        assert!(refusal.details.contains_key("retry_after_seconds"), "{refusal:?}");
        assert_eq!(fault(sqlx::Error::PoolClosed).code, Code::DbUnavailable);
    }
}

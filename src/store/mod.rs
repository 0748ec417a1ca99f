//! The durable memory: SQLite by sqlx, WAL, one writer.
//!
//! All writes go through one connection and each is one transaction, so they
//! are serial without a lock of our own; reads go through a few others and see
//! the last commit. Rows are small: log lines never come here. Row types are
//! private to the file of their resource; what leaves are the records of
//! `provost_actors::journal` and the views of the files below.

mod approvals;
mod attempts;
mod begin;
mod begun;
mod changes;
mod codec;
mod dependencies;
mod follow_ups;
mod import;
mod inspect;
mod journal;
mod missing;
mod open;
mod owned;
mod processes;
mod projects;
mod reach;
mod requests;
mod resolve;
mod sessions;
mod tasks;
mod turns;
mod wal;
mod work;

pub use approvals::ApprovalFilter;
pub use attempts::{AttemptFilter, AttemptOverview, AttemptStatus, Limited, WorkspaceView};
pub use inspect::{InspectedAttempt, Inspection, inspect};
pub use open::OpenError;
pub use reach::Named;
pub use resolve::{Kind, Match};
pub use sessions::Target;
pub use tasks::TaskFilter;
pub use wal::is_damaged as is_log_damaged;
pub use work::{LastRun, NewDocument, NewPlan, NewQuestion, Question, Sending};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::failpoint;
use provost_actors::refusal::{Code, Refusal};
use sqlx::{SqliteConnection, SqlitePool};

/// The store. Cheap to clone: the pools are shared.
#[derive(Clone, Debug)]
pub struct Store {
    writer: SqlitePool,
    reader: SqlitePool,
    /// The file that is open: its path, its device and its inode.
    file: Arc<(PathBuf, (u64, u64))>,
    times: TimesToLive,
    changes: changes::Changes,
}

/// How long kept answers and intents live; `None` for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimesToLive {
    pub answers: Option<Duration>,
    /// An intent without an answer. Its effect is brought about by a retry
    /// however old it is; a stale one no longer holds its id against others.
    pub intents: Option<Duration>,
    /// A task taken by a worker that no attempt is known of, from its last call on.
    pub claims: Duration,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub has_more: bool,
}

impl<T> Page<T> {
    /// From one item more than the page holds.
    fn cut(mut items: Vec<T>, limit: usize) -> Self {
        let has_more = items.len() > limit;
        items.truncate(limit);
        Self { items, has_more }
    }
}

/// One row more than a page holds: whether there is one tells `has_more`.
fn rows_for(limit: usize) -> i64 {
    i64::try_from(limit).map_or(i64::MAX, |limit| limit.saturating_add(1))
}

/// What SQLite's error means to a caller.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn fault(error: sqlx::Error) -> Refusal {
    // SQLITE_FULL, and IOERR_WRITE, _FSYNC, _TRUNCATE or _SHMSIZE that a full disk
    // gives too (https://www.sqlite.org/rescode.html).
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    if matches!(code.as_deref(), Some("13" | "778" | "1034" | "1546" | "4874")) {
        return Refusal::new(Code::StorageFull, format!("the database can't be written: {error}"));
    }
    if matches!(error, sqlx::Error::PoolTimedOut) {
        tracing::warn!(%error, "the database is busy");
        return begin::locked("the database is busy with other calls, and did not get free");
    }
    tracing::error!(%error, "the store failed");
    if is_unavailable(&error) {
        return Refusal::new(Code::DbUnavailable, format!("the database can't be used: {error}"));
    }
    Refusal::internal(format!("the store failed: {error}"))
}

/// SQLITE_READONLY, _IOERR, _CORRUPT, _CANTOPEN and _NOTADB with their extensions, or no
/// connection at all (<https://www.sqlite.org/rescode.html>).
fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => true,
        error => matches!(primary_code(error), Some(8 | 10 | 11 | 14 | 26)),
    }
}

/// SQLite's result code without its extension.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

type Writing<'a> = &'a mut SqliteConnection;

/// Commits what was written; `what` names the places before and after.
async fn commit(writing: sqlx::Transaction<'_, sqlx::Sqlite>, what: &str) -> Result<(), Refusal> {
    failpoint::hit(what, "written");
    writing.commit().await.map_err(fault)?;
    failpoint::hit(what, "committed");
    Ok(())
}

#[cfg(test)]
mod tests;

//! The durable memory: SQLite (in WAL mode) or PostgreSQL, both through sqlx.
//!
//! One connection writes, and each write is one transaction: writes are serial without a lock of our own. A
//! few other connections read, and see the last commit. Rows are small: log lines are in files, not here.
//! Row types are private to the file of their resource. Callers get the records of
//! `provost_actors::journal` and the views of the files below.
//!
//! ```text
//!  read, read_snapshot ─────▶ a reading connection
//!  read_once ─▶ read_cache ─▶ read
//!  write, keyed ────────────▶ the writing connection: begin (fence) ▸ rows ▸ commit ▸ announce
//!  beside ── SQLite ────────▶ write
//!         └─ PostgreSQL ────▶ a reading connection, read-write for one transaction: waits for no other write
//!  renewing ── SQLite ──────▶ write
//!           └─ PostgreSQL ──▶ a connection for renewals of the lease alone
//! ```

mod agent_scope;
mod approvals;
mod attempt_views;
mod attempts;
mod board;
mod bundles;
mod changes;
mod comments;
mod connection;
mod dependencies;
mod dialect;
mod error;
mod fence;
mod finishes;
mod former;
mod handles;
mod histories;
mod host_calls;
mod hosts;
mod inspect;
mod not_found;
mod open;
mod open_doors;
mod pg_transaction;
mod placement;
mod postgres;
mod probes;
mod processes;
mod projects;
mod provisions;
mod read_cache;
mod remote_commits;
mod renewal;
mod requests;
mod resolve;
mod retention;
mod row;
mod schema;
mod session_queue;
mod sessions;
mod shipped;
mod sql;
mod sweep;
mod task_status;
mod tasks;
mod timeline;
mod turn_snapshots;
mod users;
mod wal;
mod window;
mod work;
mod write_retry;

pub use agent_scope::Named;
pub use attempt_views::{AttemptOverview, AttemptRow, LastFinish, Quota, WorkspaceView};
pub use comments::{Amendment, Author, DRAFTS_CHANGED, KeptComment, NewComment};
pub use host_calls::HostAnswer;
pub use inspect::{InspectedAttempt, Inspection, inspect};
pub use open::OpenError;
pub use postgres::{Durability, Server};
pub use projects::busy_project;
pub use timeline::{Beside, FinishRow};
pub use wal::is_damaged as is_log_damaged;
pub use window::OpenFacts;
pub use work::{Asking, NewDocument, NewPlan, NewQuestion, Question, WorkerCall};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::failpoint;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::workspace::Places;
use serde::Serialize;

use connection::{Connection, Pool};
use error::{Result, StoreError, fault};
use sql::{Sql, now, word};
use write_retry::RetryBudget;

/// The store. Cheap to clone: the pools are shared.
#[derive(Clone, Debug)]
pub struct Store {
    writer: Pool,
    reader: Pool,
    /// The file that is open: its path, its device and its inode. `None`: the board is on a server.
    file: Option<Arc<(PathBuf, (u64, u64))>>,
    /// The engine with its version, and where the board is.
    engine: Arc<str>,
    times: TimesToLive,
    /// Wake-ups of waiting calls, and the waits that are in no table.
    changes: changes::Changes,
    kept: read_cache::Kept,
    /// The host of this daemon. A daemon resumes only the attempts of its host.
    host: Arc<str>,
    /// Where this host has the repositories of the board.
    places: Places,
    fence: Arc<fence::Fence>,
    /// The connection for renewals of the lease. `None`: the board is a file, and no lease is renewed.
    renewals: Option<Arc<renewal::Renewals>>,
    /// The newest migration that this version knows for a board on a server; 0 for a file, where no other
    /// daemon changes the schema.
    schema: i64,
}

/// After how long rows are removed, or count as stale; `None`: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimesToLive {
    pub answers: Option<Duration>,
    /// An intent without an answer. After this time its row is removed, so that it no longer blocks its
    /// request id.
    pub intents: Option<Duration>,
    /// A task that a worker without an attempt holds, counted from the worker's last call.
    pub claims: Duration,
    /// Copies of logs and bundles for other hosts, counted from when their attempt settled.
    pub settled: Option<Duration>,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Whether the list has items behind the last one of this page.
    pub has_more: bool,
}

impl<T> Page<T> {
    /// Makes a page of a query that asked for one item more than the page holds.
    fn cut(mut items: Vec<T>, limit: usize) -> Self {
        let has_more = items.len() > limit;
        items.truncate(limit);
        Self { items, has_more }
    }

    /// The cursor of the next page, made from the last item of this one; `None`: this page is the last.
    pub fn next<C: ToString>(&self, cursor: impl FnOnce(&T) -> C) -> Option<String> {
        self.items.last().filter(|_| self.has_more).map(|last| cursor(last).to_string())
    }
}

type Db<'a> = &'a mut Connection;

impl provost_actors::journal::Journal for Store {}

impl Store {
    /// Reads on one connection. Each statement sees the last commit before it.
    async fn read<T>(&self, work: impl AsyncFnOnce(Db<'_>) -> Result<T>) -> Result<T, Refusal> {
        let mut db = self.reader.acquire().await.map_err(fault)?;
        let done = work(&mut db).await;
        self.read_done(db, done).await
    }

    /// Reads rows that must fit together: all statements see the same commits.
    async fn read_snapshot<T>(
        &self,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        let mut db = self.reader.begin_snapshot().await.map_err(fault)?;
        let done = work(&mut db).await;
        self.read_done(db, done).await
    }

    /// Ends a read. Where statements do not fit the schema, a daemon of a newer version may have changed the
    /// schema: the refusal says so then, and this daemon stops.
    async fn read_done<T>(&self, db: Connection, done: Result<T>) -> Result<T, Refusal> {
        drop(db);
        match done {
            Err(error) if self.is_shared() && error.misfits_schema() => {
                Err(Box::pin(self.outdated()).await.unwrap_or_else(|| error.into()))
            }
            done => Ok(done?),
        }
    }

    /// The store with the folders where this host has the repositories of the board.
    #[must_use]
    pub fn with_places(self, places: Places) -> Self {
        Self { places, ..self }
    }

    /// Where this host has the repositories of the board.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The engine with its version, and where the board is, without a password: for the log and `doctor`.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// Like [`Self::read`], but answers from memory until the next commit. Use it only where the answer does
    /// not depend on the time. `name` and `values` identify the query.
    async fn read_once<T: Clone + Send + Sync + 'static>(
        &self,
        name: &str,
        values: impl Serialize,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        let question = serde_json::to_string(&(name, values));
        let question = question.map_err(|error| Refusal::internal(error.to_string()))?;
        self.kept.answer(question, self.read(work)).await
    }

    /// Commits a write and wakes those that follow all changes. `what` names the crash points before and
    /// after the commit.
    async fn commit(&self, writing: Connection, what: &str) -> Result<(), Refusal> {
        failpoint::hit(what, "written");
        let number = self.kept.committing();
        let done = self.writer.commit(writing, Some(&self.host)).await;
        self.kept.committed(number);
        done.map_err(fault)?;
        self.changes.committed();
        failpoint::hit(what, "committed");
        Ok(())
    }
}

#[cfg(test)]
mod parity;
#[cfg(test)]
pub mod scratch;
#[cfg(test)]
mod tests;

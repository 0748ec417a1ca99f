//! The durable memory: SQLite (WAL), or PostgreSQL, by sqlx; one writer at a time.
//!
//! All writes go through one connection and each is one transaction, so they are serial without a
//! lock of our own; reads go through a few others and see the last commit. Rows are small: log
//! lines never come here. Row types are private to the file of their resource; what leaves are the
//! records of `provost_actors::journal` and the views of the files below.

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
use write_retry::Patience;

/// The store. Cheap to clone: the pools are shared.
#[derive(Clone, Debug)]
pub struct Store {
    writer: Pool,
    reader: Pool,
    /// The file that is open: its path, its device and its inode. `None`: a server has the board.
    file: Option<Arc<(PathBuf, (u64, u64))>>,
    /// The engine with its version, and where the board is.
    engine: Arc<str>,
    times: TimesToLive,
    changes: changes::Changes,
    kept: read_cache::Kept,
    /// The host whose daemon this is. What a daemon takes up by itself is limited to it.
    host: Arc<str>,
    /// Where that has the repositories.
    places: Places,
    fence: Arc<fence::Fence>,
    /// Where a server has the board.
    renewals: Option<Arc<renewal::Renewals>>,
    /// The newest migration of a board on a server that this version knows.
    schema: i64,
}

/// How long kept answers and intents live; `None`: forever.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimesToLive {
    pub answers: Option<Duration>,
    /// An intent without an answer. Its effect is brought about by a retry
    /// however old it is; a stale one no longer holds its id against others.
    pub intents: Option<Duration>,
    /// A task taken by a worker that no attempt is known of, from its last call on.
    pub claims: Duration,
    /// What other hosts need of an attempt, once it has been settled for so long.
    pub settled: Option<Duration>,
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

    /// What the next page begins after, if there is one.
    pub fn next<C: ToString>(&self, cursor: impl FnOnce(&T) -> C) -> Option<String> {
        self.items.last().filter(|_| self.has_more).map(|last| cursor(last).to_string())
    }
}

type Db<'a> = &'a mut Connection;

impl provost_actors::journal::Journal for Store {}

impl Store {
    /// Reads by one connection. Each statement sees the last commit before it.
    async fn read<T>(&self, work: impl AsyncFnOnce(Db<'_>) -> Result<T>) -> Result<T, Refusal> {
        let mut db = self.reader.acquire().await.map_err(fault)?;
        let done = work(&mut db).await;
        self.read_done(db, done).await
    }

    /// Reads several rows that fit together: all statements see the same commits.
    async fn read_snapshot<T>(
        &self,
        work: impl AsyncFnOnce(Db<'_>) -> Result<T>,
    ) -> Result<T, Refusal> {
        let mut db = self.reader.begin_snapshot().await.map_err(fault)?;
        let done = work(&mut db).await;
        self.read_done(db, done).await
    }

    /// What a read has found, or why it has failed.
    async fn read_done<T>(&self, db: Connection, done: Result<T>) -> Result<T, Refusal> {
        drop(db);
        match done {
            Err(error) if self.is_shared() && error.misfits_schema() => {
                Err(Box::pin(self.outdated()).await.unwrap_or_else(|| error.into()))
            }
            done => Ok(done?),
        }
    }

    /// Has attempts name the repositories where this host has them.
    #[must_use]
    pub fn with_places(self, places: Places) -> Self {
        Self { places, ..self }
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The engine with its version, and where the board is.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// The same as [`Self::read`], of which the last answer is given again until something is committed. Only for
    /// what does not depend on the time. `name` and `values` say what is asked.
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

    /// Commits what was written; `what` names the places before and after.
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

//! What other daemons of the same board commit. PostgreSQL's NOTIFY gives a hint at once; reading the rows
//! once a second finds what a lost hint was about.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::{Driver, Pool};
use super::pg_transaction::answered;
use super::pg_transaction::prepare;
use super::{Db, Refusal, Result, Sql, Store};

type Hints = BoxStream<'static, sqlx::Result<PgNotification>>;

/// The time between two reads of the changes while no hint comes.
pub const POLL: Duration = Duration::from_secs(1);
/// The least time between two reads while hints come all the time: each commit of any host sends one.
const GAP: Duration = Duration::from_millis(25);
/// The pause before a failed connection for hints is opened again.
const PAUSE: Duration = Duration::from_secs(5);
/// How many changes are read at once.
const BATCH: usize = 500;

/// Sends a hint to the daemon of a host, once this transaction is committed; `what` is a topic of `changes`.
/// On SQLite, which has one daemon, it does nothing.
pub async fn hint(db: Db<'_>, host: &str, what: &str) -> Result<()> {
    if let Driver::Postgres(_) = db.driver() {
        let sql = "SELECT pg_notify('provost_' || md5(current_schema() || ' ' || $1), $2)";
        db.run(sql, (host, what)).await?;
    }
    Ok(())
}

/// The same to the daemons of all hosts.
pub async fn hint_all(db: Db<'_>, what: &str) -> Result<()> {
    if let Driver::Postgres(_) = db.driver() {
        let sql = "SELECT pg_notify('provost_' || md5(current_schema()), $1)";
        db.run(sql, (what,)).await?;
    }
    Ok(())
}

impl Store {
    /// Wakes the waiters of this daemon for what other daemons commit after the change `last`. Ends at once
    /// on SQLite; on a server it never ends.
    pub async fn follow(&self, mut last: u64) {
        let Pool::Postgres(pool) = &self.reader else { return };
        loop {
            let mut hints: Option<Hints> = match self.hints(pool).await {
                Ok(listener) => Some(listener.into_stream().boxed()),
                Err(error) => {
                    tracing::warn!(%error, "no hints of other daemons: the rows alone tell");
                    None
                }
            };
            let mut quiet = Duration::ZERO;
            while hints.is_some() || quiet < PAUSE {
                let next = Instant::now() + GAP;
                if let Err(refusal) = self.catch_up(&mut last).await {
                    tracing::debug!(%refusal, "what other daemons have changed is not known");
                }
                let Some(stream) = &mut hints else {
                    quiet += POLL;
                    sleep(POLL).await;
                    continue;
                };
                if !self.have_news(stream, next).await {
                    hints = None;
                }
            }
        }
    }

    /// Opens a connection that listens for the hints to all hosts and to this one.
    async fn hints(&self, pool: &PgPool) -> sqlx::Result<PgListener> {
        let options = pool.connect_options();
        let alone = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let alone = alone.after_connect(|connection, _| Box::pin(prepare(connection)));
        let alone = alone.connect_with((*options).clone()).await?;
        let sql = "SELECT 'provost_' || md5(current_schema()),
                          'provost_' || md5(current_schema() || ' ' || $1)";
        let (board, own): (String, String) =
            answered(sqlx::query_as(sql).bind(&*self.host).fetch_one(pool)).await?;
        let mut listener = PgListener::connect_with(&alone).await?;
        listener.listen_all([board.as_str(), own.as_str()]).await?;
        Ok(listener)
    }

    /// Waits for a hint that is news, at most for [`POLL`]; then collects all hints until `next`, the time of
    /// the next read. `false`: the connection gives no hints any more.
    async fn have_news(&self, hints: &mut Hints, next: Instant) -> bool {
        let first = timeout(POLL, self.news(hints)).await;
        let rest = async { while let Some(Ok(_)) = self.news(hints).await {} };
        !matches!(first, Ok(Some(Err(_)) | None)) && timeout_at(next, rest).await.is_err()
    }

    /// The next hint that is news.
    async fn news(&self, hints: &mut Hints) -> Option<sqlx::Result<PgNotification>> {
        loop {
            match hints.next().await {
                Some(Ok(hint)) if !self.take_hint(hint.payload()) => {}
                other => return other,
            }
        }
    }

    /// Announces a hint, and says whether it is news. A hint with the name of this host is about its own
    /// commit, which has been announced already. All other texts are topics.
    fn take_hint(&self, hint: &str) -> bool {
        self.changes.announce(hint);
        hint != &*self.host
    }

    /// Announces all changes since the last read.
    async fn catch_up(&self, last: &mut u64) -> Result<(), Refusal> {
        loop {
            let changes = self.changes_after(*last, BATCH).await?;
            for change in &changes {
                self.changes.announce(change.id.as_str());
                *last = change.number;
            }
            if changes.is_empty() {
                return Ok(());
            }
            self.changes.committed();
        }
    }
}

//! The fence of a board that hosts share. Each transaction that writes first checks that its daemon is still
//! the one of its host. So a daemon commits nothing after its host was given up, or after another daemon has
//! registered the host.
//!
//! ```text
//!  open ─register_host─▶ required (incarnation) ─a write finds another incarnation, or fenced_at─▶ lost
//!    └────────────────────────┴─────────────────a write finds a newer schema───────────────────▶ lost
//! ```
//!
//! A lost fence stays lost: the daemon stops, and the next one opens the store again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use provost_actors::refusal::{Code, Refusal};
use sqlx::AssertSqlSafe;
use tokio_util::sync::CancellationToken;

use super::{Db, Result, RetryBudget, Sql, Store};

/// What this daemon has registered, as far as it knows.
#[derive(Debug, Default)]
pub struct Fence {
    /// 0: the daemon has not registered its host yet, and writes are not checked.
    incarnation: AtomicU64,
    /// A migration on the board that this version of Provost does not know.
    newer: OnceLock<i64>,
    /// Cancelled once this daemon may not write any more.
    lost: CancellationToken,
}

impl Fence {
    /// The incarnation that each write must have; `None`: writes are not checked.
    pub fn incarnation(&self) -> Option<u64> {
        Some(self.incarnation.load(Ordering::Relaxed)).filter(|it| *it > 0)
    }

    /// From now on each write must have this incarnation; `None`: any.
    pub fn require(&self, incarnation: Option<u64>) {
        self.incarnation.store(incarnation.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Notes that the host has another daemon now, or none. This stops the daemon.
    pub fn lost(&self, host: &str) -> Refusal {
        self.lost.cancel();
        let message = format!(
            "host {host} was given up, because its lease was over, or another daemon has registered \
             it: this daemon starts anew"
        );
        Refusal::new(Code::DbUnavailable, message).hint("Call the tool again in a few seconds.")
    }

    /// Notes that a daemon of a newer version has changed the schema. This stops the daemon.
    pub fn outdated(&self, version: i64) -> Refusal {
        let _ = self.newer.set(version);
        self.lost.cancel();
        let message = format!(
            "the board is of a newer version of Provost (it has migration {version}): this daemon ends, \
             and executors run on"
        );
        Refusal::new(Code::DbUnavailable, message)
            .hint("Install that version on this host, and start its daemon.")
    }
}

impl Store {
    /// Waits until this daemon has found that it may write nothing any more. Either it has lost its host, and
    /// another host may have started the same attempts; or the board is of a
    /// [newer version](Self::newer_migration).
    pub async fn fenced(&self) {
        self.fence.lost.cancelled().await;
    }

    /// The migration on the board that this version does not know; `None`: none was found.
    pub fn newer_migration(&self) -> Option<i64> {
        self.fence.newer.get().copied()
    }

    /// The refusal if the schema is newer than this version; `None`: it is not, or the store does not answer.
    pub(super) async fn outdated(&self) -> Option<Refusal> {
        let mut db = self.reader.acquire().await.ok()?;
        let newest: i64 = db.one("SELECT max(version) FROM _sqlx_migrations", ()).await.ok()?;
        (newest > self.schema).then(|| self.fence.outdated(newest))
    }

    /// Loses the fence if the host is no longer this daemon's. It only reads, so it works also where this
    /// daemon can't write.
    pub(super) async fn look_at_fence(&self) {
        let Some(incarnation) = self.fence.incarnation() else { return };
        let sql = "SELECT count(*) FROM hosts
             WHERE host_id = $1 AND incarnation = $2 AND fenced_at IS NULL";
        let found: Result<u64, Refusal> =
            self.read(async |db| db.one(sql, (&self.host, incarnation)).await).await;
        if matches!(found, Ok(0)) {
            let _ = self.fence.lost(&self.host);
        }
    }

    /// Records that the daemon of this host stops and that nothing it started is running, so that another
    /// home may register the host at once. The attempts wait for the host's next daemon until the lease ends.
    pub async fn end_host(&self) -> Result<(), Refusal> {
        let now = self.writer.dialect().now;
        let sql = format!("UPDATE hosts SET ended_at = {now} WHERE host_id = $1");
        self.write(RetryBudget::OneTry, "lease", async |db| {
            db.run(AssertSqlSafe(sql), (&self.host,)).await.map(drop)
        })
        .await
    }
}

/// Records that the engine was reachable when a host renewed its lease. After a gap longer than a third of a
/// lease the engine was away: then no host counts as lost before the time of one more lease is over. At most
/// one host writes this in a thirtieth of a lease, because the others would wait for its commit.
pub async fn engine_is_there(db: Db<'_>, lease: Duration) -> Result<()> {
    let (now, lease) = (db.dialect().now, millis(lease));
    let sql = format!(
        "UPDATE cluster SET seen_at = {now}, no_sweep_before =
             CASE WHEN {now} - seen_at > CAST($1 AS BIGINT) AND {now} + $2 > no_sweep_before
                  THEN {now} + $2 ELSE no_sweep_before END
         WHERE {now} - seen_at > CAST($3 AS BIGINT)"
    );
    db.run(AssertSqlSafe(sql), (lease / 3, lease, lease / 30)).await.map(drop)
}

/// A lease in milliseconds, the unit of the tables.
pub fn millis(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

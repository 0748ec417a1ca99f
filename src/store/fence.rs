//! The fence of a board that hosts share: each transaction that writes first makes sure that its daemon
//! still is the one of its host. So nothing of a daemon is committed after its host was given up, or
//! was registered by another daemon.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use provost_actors::refusal::{Code, Refusal};
use sqlx::AssertSqlSafe;
use tokio_util::sync::CancellationToken;

use super::{Db, Patience, Result, Sql, Store};

/// What this daemon has registered, as far as it knows.
#[derive(Debug, Default)]
pub struct Fence {
    /// 0: it has not registered its host yet, and nothing is made sure of.
    incarnation: AtomicU64,
    /// A migration of the board that this version of Provost does not know.
    newer: OnceLock<i64>,
    lost: CancellationToken,
}

impl Fence {
    pub fn incarnation(&self) -> Option<u64> {
        Some(self.incarnation.load(Ordering::Relaxed)).filter(|it| *it > 0)
    }

    /// From now on each write has to be this incarnation's; `None`: of any.
    pub fn require(&self, incarnation: Option<u64>) {
        self.incarnation.store(incarnation.unwrap_or_default(), Ordering::Relaxed);
    }

    /// The host has another daemon now, or none.
    pub fn lost(&self, host: &str) -> Refusal {
        self.lost.cancel();
        let message = format!(
            "host {host} was given up, because its lease was over, or another daemon has registered \
             it: this daemon starts anew"
        );
        Refusal::new(Code::DbUnavailable, message).hint("Call the tool again in a few seconds.")
    }

    /// A daemon of a newer version has changed the schema.
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
    /// Waits until this daemon has found that it may write nothing any more: its host is not its own,
    /// and what it has started may have been started elsewhere; or the board is of a
    /// [newer version](Self::newer_migration).
    pub async fn fenced(&self) {
        self.fence.lost.cancelled().await;
    }

    /// The migration of the board that this version does not know, once one was found.
    pub fn newer_migration(&self) -> Option<i64> {
        self.fence.newer.get().copied()
    }

    /// The refusal of a daemon whose version does not know the schema; `None`: it knows it.
    pub(super) async fn outdated(&self) -> Option<Refusal> {
        let mut db = self.reader.acquire().await.ok()?;
        let newest: i64 = db.one("SELECT max(version) FROM _sqlx_migrations", ()).await.ok()?;
        (newest > self.schema).then(|| self.fence.outdated(newest))
    }

    /// Whether the host is still this daemon's; also where this daemon can't write.
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

    /// Notes that the daemon of this host ends, and nothing of it runs: another home may have the host at
    /// once. What it has waits for its next daemon as long as the lease.
    pub async fn end_host(&self) -> Result<(), Refusal> {
        let now = self.writer.dialect().now;
        let sql = format!("UPDATE hosts SET ended_at = {now} WHERE host_id = $1");
        self.write(Patience::OneTry, "lease", async |db| {
            db.run(AssertSqlSafe(sql), (&self.host,)).await.map(drop)
        })
        .await
    }
}

/// Notes that a host renews its lease. If none did for a while the engine was away: then each host
/// gets the time of a lease before any counts as lost. One of all hosts notes it in a thirtieth of a
/// lease: the others would wait for its commit.
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

pub fn millis(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

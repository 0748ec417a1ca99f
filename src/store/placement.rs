//! Attempts that no host has (`host = ''`): daemons of hosts with room claim them. And limits of executors,
//! for which the attempts of all hosts count.
//!
//! ```text
//!  host = '' ─claim, claim_one─▶ this host ─release─▶ host = ''
//!      ▲                             └─admit: counts as running for its executor's limit
//!      └────────sweep: its host is lost
//! ```

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Claimed, MaxRunning, Placement, Room, Waiting, chosen};
use sqlx::AssertSqlSafe;

use super::approvals::count_change;
use super::{Db, Refusal, Result, RetryBudget, Sql, Store, remote_commits};

/// The name of the hint that there may be an attempt to claim, or that a limit has room again.
const UNPLACED: &str = "unplaced";

/// The attempts that host `$1` may claim with its executors `$2`, in the order in which they should begin.
/// The labels must match, and the memory must suffice while nothing else runs there.
const CLAIMABLE: &str = "SELECT a.attempt_id, a.executor, a.memory
     FROM attempts a JOIN tasks t ON t.task_id = a.task_id
     WHERE a.host = '' AND a.phase = 'queued'
       AND a.executor IN (SELECT value FROM json_each($2))
       AND NOT EXISTS (
           SELECT 1 FROM json_each(a.labels) l
           WHERE l.value NOT IN (SELECT h.value FROM json_each(
               (SELECT labels FROM hosts WHERE host_id = $1)) h))
       AND NOT EXISTS (SELECT 1 FROM hosts h
                       WHERE h.host_id = $1 AND h.memory > 0 AND h.memory < a.memory)
     ORDER BY CASE t.priority WHEN 'critical' THEN 3 WHEN 'high' THEN 2
                              WHEN 'medium' THEN 1 ELSE 0 END DESC, a.created_at, a.attempt_id
     LIMIT 1000";

/// How many attempts of the executors `$1` count as running, on all hosts.
const RUNNING: &str = "SELECT executor, count(*) FROM running_attempts
     WHERE executor IN (SELECT value FROM json_each($1)) GROUP BY executor";

/// A queued attempt of this host that may wait because of its executor's limit.
#[derive(serde::Deserialize)]
struct Waits {
    attempt_id: AttemptId,
    executor: String,
    /// It has been admitted in its current epoch.
    is_admitted: bool,
}

/// Sends the hint to all daemons, once this transaction is committed.
pub(super) async fn hint(db: Db<'_>) -> Result<()> {
    remote_commits::hint_all(db, UNPLACED).await
}

#[async_trait]
impl Placement for Store {
    async fn unplaced(&self) {
        self.changes.watch(&[UNPLACED]).changed().await;
    }

    async fn claim(
        &self,
        incarnation: u64,
        executors: &[String],
        limits: &MaxRunning,
        room: Room,
    ) -> Result<Claimed, Refusal> {
        let claimable = async |db: Db<'_>| claimable(db, &self.host, executors, limits, room).await;
        if self.read(claimable).await?.is_empty() {
            return Ok(Claimed::default());
        }
        // Writes have an order, so no other daemon claims at the same time, and the rows need no lock.
        let claimed = self
            .write(RetryBudget::OneTry, "claim", async |db| {
                let Some(left) = lease_left(db, &self.host, incarnation).await? else {
                    return Ok(Claimed::default());
                };
                let chosen = claimable(db).await?;
                let attempts: Vec<AttemptId> = chosen.iter().map(|it| it.attempt_id).collect();
                for attempt in &attempts {
                    give(db, *attempt, "", &self.host).await?;
                }
                let limited = chosen.iter().filter(|it| limits.contains_key(&it.executor));
                admit(db, &limited.map(|it| it.attempt_id).collect::<Vec<_>>()).await?;
                Ok(Claimed { attempts, lease_left: left })
            })
            .await?;
        for attempt in &claimed.attempts {
            self.changes.announce(*attempt);
        }
        Ok(claimed)
    }

    async fn admit(
        &self,
        attempts: &[AttemptId],
        limits: &MaxRunning,
    ) -> Result<Vec<AttemptId>, Refusal> {
        let admissible = async |db: Db<'_>| admissible(db, &self.host, attempts, limits).await;
        let may = self.read(admissible).await?;
        if may.iter().all(|it| it.is_admitted) {
            return Ok(may.into_iter().map(|it| it.attempt_id).collect());
        }
        self.write(RetryBudget::OneTry, "admit", async |db| {
            let may: Vec<AttemptId> =
                admissible(db).await?.into_iter().map(|it| it.attempt_id).collect();
            admit(db, &may).await?;
            Ok(may)
        })
        .await
    }

    async fn claim_one(&self, attempt: AttemptId) -> Result<bool, Refusal> {
        let claimed = self
            .write(RetryBudget::Short, "claim", async |db| give(db, attempt, "", &self.host).await)
            .await?;
        self.changes.announce(attempt);
        Ok(claimed)
    }

    async fn release(&self, attempts: &[AttemptId]) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "release", async |db| {
            for attempt in attempts {
                give(db, *attempt, &self.host, "").await?;
            }
            hint(db).await
        })
        .await?;
        for attempt in attempts {
            self.changes.announce(*attempt);
        }
        Ok(())
    }

    async fn sweep(&self) -> Result<Vec<String>, Refusal> {
        self.sweep_lost_hosts().await
    }
}

/// How many more attempts may run of each executor that has a limit.
async fn left(db: Db<'_>, limits: &MaxRunning) -> Result<MaxRunning> {
    let mut left = limits.clone();
    if left.is_empty() {
        return Ok(left);
    }
    let names: Vec<&String> = limits.keys().collect();
    let running: Vec<(String, u64)> = db.all(RUNNING, (names,)).await?;
    for (executor, running) in running {
        left.entry(executor).and_modify(|left| *left = left.saturating_sub(running));
    }
    Ok(left)
}

/// The attempts that this host may claim now, within the limits of executors and its room.
async fn claimable(
    db: Db<'_>,
    host: &str,
    executors: &[String],
    limits: &MaxRunning,
    room: Room,
) -> Result<Vec<Waiting>> {
    let left = left(db, limits).await?;
    let able: Vec<&String> =
        executors.iter().filter(|it| left.get(*it).is_none_or(|left| *left > 0)).collect();
    let waiting: Vec<Waiting> = db.all(CLAIMABLE, (host, able)).await?;
    Ok(chosen(waiting, room, left))
}

/// Those of these attempts that may begin: they have been admitted before, or the limit has room for them.
/// The order of `attempts` decides which come first.
async fn admissible(
    db: Db<'_>,
    host: &str,
    attempts: &[AttemptId],
    limits: &MaxRunning,
) -> Result<Vec<Waits>> {
    let mut left = left(db, limits).await?;
    let sql = "SELECT attempt_id, executor, admitted_epoch = epoch AS is_admitted FROM attempts
         WHERE host = $1 AND phase = 'queued'
           AND attempt_id IN (SELECT value FROM json_each($2))";
    let mut waits: Vec<Waits> = db.all(sql, (host, attempts)).await?;
    waits.sort_by_key(|it| attempts.iter().position(|id| *id == it.attempt_id));
    waits.retain(|it| match left.get_mut(&it.executor) {
        Some(left) if !it.is_admitted => {
            let is_let = *left > 0;
            *left = left.saturating_sub(1);
            is_let
        }
        _ => true,
    });
    Ok(waits)
}

/// Marks attempts as admitted: each counts as running until its turn has ended.
async fn admit(db: Db<'_>, attempts: &[AttemptId]) -> Result<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE attempts SET admitted_epoch = epoch
         WHERE attempt_id IN (SELECT value FROM json_each($1))";
    db.run(sql, (attempts,)).await.map(drop)
}

/// How much longer the lease of a host lasts; `None`: the host may not begin attempts now.
async fn lease_left(db: Db<'_>, host: &str, incarnation: u64) -> Result<Option<Duration>> {
    let now = db.dialect().now;
    let sql = format!(
        "SELECT lease_until - {now} FROM hosts
         WHERE host_id = $1 AND incarnation = $2 AND state = 'active' AND role <> 'gateway'
           AND fenced_at IS NULL AND lease_until > {now}"
    );
    let left: Option<u64> = db.find(AssertSqlSafe(sql), (host, incarnation)).await?;
    Ok(left.map(Duration::from_millis))
}

/// Gives a queued attempt from one host to another, in its next epoch. `false`: the attempt is not queued on
/// `from`.
async fn give(db: Db<'_>, attempt: AttemptId, from: &str, to: &str) -> Result<bool> {
    let sql = "UPDATE attempts SET host = $3, epoch = epoch + 1
         WHERE attempt_id = $1 AND host = $2 AND phase = 'queued'";
    let given = db.run(sql, (attempt, from, to)).await? > 0;
    if given {
        count_change(db, attempt).await?;
    }
    Ok(given)
}

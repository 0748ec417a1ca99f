//! Attempts that no host has: claimed by the daemons of hosts with free slots.

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{Claimed, Placement};
use sqlx::AssertSqlSafe;

use super::approvals::count_change;
use super::{Db, Patience, Refusal, Result, Sql, Store, follow};

/// What is announced when there may be an attempt to claim.
const UNPLACED: &str = "unplaced";

/// The attempts that a host, `$1`, may claim with its executors, `$2`.
macro_rules! claimable {
    ($what:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $what,
            " FROM attempts a JOIN tasks t ON t.task_id = a.task_id
             WHERE a.host = '' AND a.phase = 'queued'
               AND a.executor IN (SELECT value FROM json_each($2))
               AND NOT EXISTS (
                   SELECT 1 FROM json_each(a.labels) l
                   WHERE l.value NOT IN (SELECT h.value FROM json_each(
                       (SELECT labels FROM hosts WHERE host_id = $1)) h))",
            $rest
        )
    };
}

/// Tells all daemons, once this transaction is committed, that there is an attempt to claim.
pub(super) async fn hint(db: Db<'_>) -> Result<()> {
    follow::hint_all(db, UNPLACED).await
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
        most: usize,
    ) -> Result<Claimed, Refusal> {
        let sql = claimable!("count(*) > 0", "");
        if !self.read(async |db| db.one(sql, (&self.host, executors)).await).await? {
            return Ok(Claimed::default());
        }
        // Transactions that write have an order: no other daemon claims at the same time, so rows
        // need no lock of their own.
        let claimed = self
            .write(Patience::OneTry, "claim", async |db| {
                let Some(left) = lease_left(db, &self.host, incarnation).await? else {
                    return Ok(Claimed::default());
                };
                let sql = claimable!(
                    "a.attempt_id",
                    " ORDER BY CASE t.priority WHEN 'critical' THEN 3 WHEN 'high' THEN 2
                               WHEN 'medium' THEN 1 ELSE 0 END DESC, a.created_at, a.attempt_id
                      LIMIT $3"
                );
                let attempts: Vec<AttemptId> = db.all(sql, (&self.host, executors, most)).await?;
                for attempt in &attempts {
                    give(db, *attempt, "", &self.host).await?;
                }
                Ok(Claimed { attempts, lease_left: left })
            })
            .await?;
        for attempt in &claimed.attempts {
            self.changes.announce(*attempt);
        }
        Ok(claimed)
    }

    async fn claim_one(&self, attempt: AttemptId) -> Result<bool, Refusal> {
        let claimed = self
            .write(Patience::Short, "claim", async |db| give(db, attempt, "", &self.host).await)
            .await?;
        self.changes.announce(attempt);
        Ok(claimed)
    }

    async fn release(&self, attempts: &[AttemptId]) -> Result<(), Refusal> {
        self.write(Patience::Long, "release", async |db| {
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

/// How long the lease of a host lasts that may begin attempts.
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

/// Gives a queued attempt from one host to another, in a new epoch. `false`: it is not there.
async fn give(db: Db<'_>, attempt: AttemptId, from: &str, to: &str) -> Result<bool> {
    let sql = "UPDATE attempts SET host = $3, epoch = epoch + 1
         WHERE attempt_id = $1 AND host = $2 AND phase = 'queued'";
    let given = db.run(sql, (attempt, from, to)).await? > 0;
    if given {
        count_change(db, attempt).await?;
    }
    Ok(given)
}

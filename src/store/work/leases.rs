//! Leases: which worker has claimed which task, and until when.

use std::time::Duration;

use provost_actors::ids::TaskId;

use crate::store::{Db, Refusal, Result, RetryBudget, Sql, Store, now};
use crate::work::Worker;

fn expiry(lasts: Duration) -> i64 {
    let lasts = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
    now().saturating_add(lasts)
}

/// Gives a task to a worker. The lease holds as long as the worker's attempt is active. A worker without an
/// attempt gets it for `lasts`, because the daemon can't see when such a worker has gone.
pub async fn take(db: Db<'_>, worker: &Worker, task: TaskId, lasts: Duration) -> Result<()> {
    let expires_at = worker.attempt_id.is_none().then(|| expiry(lasts));
    let sql = "INSERT INTO leases (task_id, agent, attempt_id, taken_at, expires_at)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (task_id) DO UPDATE SET
             agent = excluded.agent, attempt_id = excluded.attempt_id,
             taken_at = excluded.taken_at, expires_at = excluded.expires_at";
    db.run(sql, (task, &worker.agent, worker.attempt_id, now(), expires_at)).await?;
    Ok(())
}

/// Ends the lease of a task, so that any worker can claim it.
pub async fn let_go(db: Db<'_>, task: TaskId) -> Result<u64> {
    db.run("DELETE FROM leases WHERE task_id = $1", (task,)).await
}

impl Store {
    /// Renews the leases of an agent outside of attempts, because it has called. A lease with more than nine
    /// tenths of its time left stays as it is: otherwise every call of such an agent would be a write.
    pub async fn renew_leases(&self, agent: &str) -> Result<(), Refusal> {
        let now = now();
        let lasts = self.times.claims;
        // Leases that are still valid and have less than nine tenths of their time left.
        let values = (agent, now, expiry(lasts.mul_f64(0.9)));
        let sql = "SELECT EXISTS (SELECT 1 FROM leases WHERE agent = $1 AND attempt_id IS NULL
                                  AND expires_at > $2 AND expires_at < $3)";
        if !self.read(async |db| db.one(sql, values).await).await? {
            return Ok(());
        }
        let sql = "UPDATE leases SET expires_at = $3
             WHERE agent = $1 AND attempt_id IS NULL AND expires_at > $2";
        self.write(RetryBudget::Short, "renewed", async |db| {
            db.run(sql, (agent, now, expiry(lasts))).await.map(drop)
        })
        .await
    }
}

//! Leases: which worker claimed which task from the queue, and for how long.

use std::time::Duration;

use provost_actors::ids::TaskId;

use crate::store::{Db, Patience, Refusal, Result, Sql, Store, now};
use crate::work::Worker;

fn expiry(lasts: Duration) -> i64 {
    let lasts = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
    now().saturating_add(lasts)
}

/// Gives the worker a task that no other holds: as long as its attempt is active, or for a
/// time where there is no attempt, because the daemon can't see when such a worker has gone.
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

/// Ends the lease of a task: any worker can claim it again.
pub async fn let_go(db: Db<'_>, task: TaskId) -> Result<u64> {
    db.run("DELETE FROM leases WHERE task_id = $1", (task,)).await
}

impl Store {
    /// Renews the leases of an agent outside of attempts, for it has called. A lease that is
    /// nearly fresh is left as it is: otherwise every call of such an agent would be a write.
    pub async fn renew_leases(&self, agent: &str) -> Result<(), Refusal> {
        let now = now();
        let lasts = self.times.claims;
        // Expiries between these two are of leases that live and are due for a renewal.
        let values = (agent, now, expiry(lasts.mul_f64(0.9)));
        let sql = "SELECT EXISTS (SELECT 1 FROM leases WHERE agent = $1 AND attempt_id IS NULL
                                  AND expires_at > $2 AND expires_at < $3)";
        if !self.read(async |db| db.one(sql, values).await).await? {
            return Ok(());
        }
        let sql = "UPDATE leases SET expires_at = $3
             WHERE agent = $1 AND attempt_id IS NULL AND expires_at > $2";
        self.write(Patience::Short, "renewed", async |db| {
            db.run(sql, (agent, now, expiry(lasts))).await.map(drop)
        })
        .await
    }
}

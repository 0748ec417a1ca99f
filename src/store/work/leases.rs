//! Leases: which worker claimed which task from the queue, and for how long.

use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::refusal::Refusal;

use crate::store::codec::Text;
use crate::store::{Result, Store, Writing, fault};
use crate::work::Worker;

/// When a lease that is taken now expires.
fn expiry(lasts: Duration) -> i64 {
    let lasts = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
    Timestamp::now().millis().saturating_add(lasts)
}

/// Gives the worker a task that nobody holds: as long as its attempt is active, or for a
/// time where there is no attempt, for then nothing tells when the worker has gone.
pub async fn take(
    writing: Writing<'_>,
    worker: &Worker,
    task: TaskId,
    lasts: Duration,
) -> Result<()> {
    let expires_at = worker.attempt_id.is_none().then(|| expiry(lasts));
    sqlx::query(
        "INSERT INTO leases (task_id, agent, attempt_id, taken_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (task_id) DO UPDATE SET
             agent = excluded.agent, attempt_id = excluded.attempt_id,
             taken_at = excluded.taken_at, expires_at = excluded.expires_at",
    )
    .bind(Text(task))
    .bind(&worker.agent)
    .bind(worker.attempt_id.map(Text))
    .bind(Timestamp::now().millis())
    .bind(expires_at)
    .execute(writing)
    .await?;
    Ok(())
}

/// Ends the lease of a task: any worker can claim it again.
pub async fn let_go(writing: Writing<'_>, task: TaskId) -> Result<()> {
    sqlx::query("DELETE FROM leases WHERE task_id = ?1").bind(Text(task)).execute(writing).await?;
    Ok(())
}

impl Store {
    /// Renews the leases of an agent outside of attempts, for it has called. A lease that is
    /// nearly fresh is left as it is: not every call of such an agent is to be a write.
    pub async fn renew_leases(&self, agent: &str) -> Result<(), Refusal> {
        let now = Timestamp::now().millis();
        let lasts = self.times.claims;
        let stale = expiry(lasts.mul_f64(0.9));
        let due = "agent = ?1 AND attempt_id IS NULL AND expires_at > ?2 AND expires_at < ?3";
        let is_due: bool = self
            .read(async |reading| {
                let asked = format!("SELECT EXISTS (SELECT 1 FROM leases WHERE {due})");
                Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(asked))
                    .bind(agent)
                    .bind(now)
                    .bind(stale)
                    .fetch_one(reading)
                    .await?)
            })
            .await?;
        if is_due {
            let renewal = format!("UPDATE leases SET expires_at = ?4 WHERE {due}");
            sqlx::query(sqlx::AssertSqlSafe(renewal))
                .bind(agent)
                .bind(now)
                .bind(stale)
                .bind(expiry(lasts))
                .execute(&self.writer)
                .await
                .map_err(fault)?;
        }
        Ok(())
    }
}

//! Who took which task from the queue, and for how long.

use std::time::Duration;

use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::refusal::Refusal;

use crate::store::{Store, Writing, fault};
use crate::work::Worker;

/// When what is taken now is anybody's again.
fn expiry(lasts: Duration) -> i64 {
    let lasts = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
    Timestamp::now().millis().saturating_add(lasts)
}

/// Lets the worker hold a task that nobody holds: as long as its attempt does
/// something, or, where there is none, for a time.
pub async fn take(
    writing: Writing<'_>,
    worker: &Worker,
    task: TaskId,
    lasts: Duration,
) -> Result<(), Refusal> {
    let expires_at = worker.attempt_id.is_none().then(|| expiry(lasts));
    sqlx::query(
        "INSERT INTO leases (task_id, agent, attempt_id, taken_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (task_id) DO UPDATE SET
             agent = excluded.agent, attempt_id = excluded.attempt_id,
             taken_at = excluded.taken_at, expires_at = excluded.expires_at",
    )
    .bind(task.to_string())
    .bind(&worker.agent)
    .bind(worker.attempt_id.map(|attempt| attempt.to_string()))
    .bind(Timestamp::now().millis())
    .bind(expires_at)
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(())
}

/// Makes a task anybody's again.
pub async fn let_go(writing: Writing<'_>, task: TaskId) -> Result<(), Refusal> {
    sqlx::query("DELETE FROM leases WHERE task_id = ?1")
        .bind(task.to_string())
        .execute(writing)
        .await
        .map_err(fault)?;
    Ok(())
}

impl Store {
    /// An agent outside of attempts keeps what it has not let go, for it has called. Of
    /// a lease that is nearly fresh nothing is written.
    pub async fn renew_leases(&self, agent: &str) -> Result<(), Refusal> {
        let now = Timestamp::now().millis();
        let lasts = self.times.claims;
        let stale = expiry(lasts.mul_f64(0.9));
        let due = "agent = ?1 AND attempt_id IS NULL AND expires_at > ?2 AND expires_at < ?3";
        let asked = format!("SELECT EXISTS (SELECT 1 FROM leases WHERE {due})");
        let is_due: bool = sqlx::query_scalar(sqlx::AssertSqlSafe(asked))
            .bind(agent)
            .bind(now)
            .bind(stale)
            .fetch_one(&self.reader)
            .await
            .map_err(fault)?;
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

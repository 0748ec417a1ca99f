//! The snapshots of turns.
//!
//! ```text
//!  (the outcome of a turn) ─▶ due ─record_snapshot─▶ not due: rows, or none because there is nothing to keep
//!                              │ ▲
//!                              ▼ │ tried again before the next turn
//!                         due, failed (why)
//! ```
//!
//! The outcome and the due snapshot are written in one transaction, so no turn is left without one.

use std::time::Duration;

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProjectId};
use provost_actors::journal::{DueSnapshot, Snapshots, TurnBundle, TurnSnapshot};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{Db, Refusal, Result, RetryBudget, Sql, Store, bundles, now};

/// An attempt and the turns of it that have snapshots.
pub type SnapshotTurns = (AttemptId, Vec<u32>);

impl Store {
    /// The attempts of this host whose newest snapshot was made before a time, with the turns that have
    /// snapshots; of one project, or of all.
    pub async fn old_snapshots(
        &self,
        before: Timestamp,
        project: Option<ProjectId>,
    ) -> Result<Vec<SnapshotTurns>, Refusal> {
        let sql = "SELECT n.attempt_id, json_group_array(DISTINCT n.turn) FROM turn_snapshots n
             JOIN attempts a ON a.attempt_id = n.attempt_id
             JOIN tasks t ON t.task_id = a.task_id
             WHERE a.host = $3 AND (t.project_id = $2 OR $2 IS NULL)
             GROUP BY n.attempt_id HAVING max(n.made_at) <= $1 ORDER BY n.attempt_id";
        let values = (before.millis(), project, &self.host);
        self.read(async |db| db.all(sql, values).await).await
    }

    /// Removes the rows of all snapshots of an attempt, once the references in git are gone. The results of
    /// trial merges and the contents of bundles go too.
    pub async fn forget_snapshots(&self, attempt: AttemptId) -> Result<(), Refusal> {
        self.write(RetryBudget::Short, "snapshots_forgotten", async |db| {
            let sql = "DELETE FROM probes WHERE attempt_id = $1 OR other_id = $1";
            db.run(sql, (attempt,)).await?;
            db.run("DELETE FROM turn_snapshots WHERE attempt_id = $1", (attempt,)).await?;
            bundles::forget(db, attempt).await
        })
        .await
    }
}

#[async_trait]
impl Snapshots for Store {
    async fn due_snapshot(&self, attempt: AttemptId) -> Result<Option<DueSnapshot>, Refusal> {
        let sql = "SELECT x.turn, x.ended_at, a.phase IN ('settled', 'queued') AS is_last
             FROM processes x JOIN attempts a ON a.attempt_id = x.attempt_id
             WHERE x.snapshot_due = 1 AND x.process_id = (
                 SELECT process_id FROM processes
                 WHERE attempt_id = $1 AND run_reason = 'coding_agent' AND ended_at IS NOT NULL
                 ORDER BY turn DESC, process_id DESC LIMIT 1)";
        self.read(async |db| db.find(sql, (attempt,)).await).await
    }

    async fn record_snapshot(
        &self,
        attempt: AttemptId,
        turn: u32,
        snapshots: &[TurnSnapshot],
        kept: &[TurnBundle],
    ) -> Result<(), Refusal> {
        self.write(RetryBudget::Short, "snapshot", async |db| {
            let now = now();
            for snapshot in snapshots {
                let mut row = json!(snapshot);
                row["attempt_id"] = json!(attempt);
                row["turn"] = json!(turn);
                row["made_at"] = json!(now);
                db.insert_new("INTO turn_snapshots", row).await?;
            }
            if !snapshots.is_empty() {
                bundles::replace(db, attempt, turn, kept).await?;
            }
            // A snapshot of an earlier turn can't be made any more: the worktree has changed since.
            let sql = "UPDATE processes SET snapshot_due = 0, snapshot_failed = NULL
                 WHERE attempt_id = $1 AND turn <= $2 AND snapshot_due = 1";
            let was_due = db.run(sql, (attempt, turn)).await? > 0;
            if was_due {
                count_settled(db, attempt).await?;
            }
            Ok(was_due)
        })
        .await
        .map(|is_news| {
            if is_news {
                self.changes.announce(attempt);
            }
        })
    }

    async fn snapshot_failed(
        &self,
        attempt: AttemptId,
        turn: u32,
        reason: &str,
    ) -> Result<(), Refusal> {
        self.write(RetryBudget::Short, "snapshot_failed", async |db| {
            let reason = db.dialect().storable(reason);
            let sql = "UPDATE processes SET snapshot_failed = $3
                 WHERE attempt_id = $1 AND turn = $2 AND snapshot_due = 1";
            db.run(sql, (attempt, turn, reason)).await?;
            count_settled(db, attempt).await
        })
        .await?;
        self.changes.announce(attempt);
        Ok(())
    }

    async fn snapshot_stands(
        &self,
        attempt: AttemptId,
        timeout: Duration,
    ) -> Result<Option<String>, Refusal> {
        let deadline = Instant::now() + timeout;
        let watch = self.watch(&[attempt]);
        let sql = "SELECT snapshot_failed FROM processes
             WHERE attempt_id = $1 AND snapshot_due = 1 ORDER BY turn DESC LIMIT 1";
        loop {
            let due: Option<Option<String>> =
                self.read(async |db| db.find(sql, (attempt,)).await).await?;
            match due {
                None => return Ok(None),
                Some(Some(reason)) => return Ok(Some(reason)),
                Some(None) if timeout_at(deadline, watch.changed()).await.is_err() => {
                    return Ok(Some("it is still being made".to_owned()));
                }
                Some(None) => {}
            }
        }
    }

    async fn snapshot_turns(&self, attempt: AttemptId) -> Result<Vec<u32>, Refusal> {
        let sql = "SELECT DISTINCT turn FROM turn_snapshots WHERE attempt_id = $1 ORDER BY turn";
        self.read(async |db| db.all(sql, (attempt,)).await).await
    }

    async fn turn_snapshot(
        &self,
        attempt: AttemptId,
        turn: u32,
    ) -> Result<Vec<TurnSnapshot>, Refusal> {
        let sql = "SELECT * FROM turn_snapshots WHERE attempt_id = $1 AND turn = $2 ORDER BY repo";
        self.read(async |db| db.all(sql, (attempt, turn)).await).await
    }
}

/// Gives the attempt a revision at which it settled: its last turn now has its snapshot, or can't have one.
async fn count_settled(db: Db<'_>, attempt: AttemptId) -> Result<u64> {
    let sql = "UPDATE attempts SET revision = (SELECT max(revision) + 1 FROM attempts),
                settled_revision = (SELECT max(revision) + 1 FROM attempts),
                updated_at = $2 WHERE attempt_id = $1";
    db.run(sql, (attempt, now())).await
}

//! What a shared board keeps of attempts that have been settled for long: no more than the end of the
//! copy of a log, so that its numbers go on, and the bundles of work that is still to be merged.
//!
//! Rows are deleted in small transactions. Partitions by time would be dropped faster, but chunks of one
//! attempt are in many of them, and how long one is needed depends on when its attempt has settled.

use provost_actors::ids::AttemptId;

use super::{Db, Patience, Refusal, Result, Sql, Store, bundles};

/// Copies that are looked for at once.
const BATCH: usize = 50;
/// Rounds of one look: a base commit can go once none that builds on it is there.
const ROUNDS: usize = 20;

/// The copies of logs that have not grown since `$1`, of attempts that have been settled since then.
const OLD_LOGS: &str = "SELECT s.attempt_id, s.channel, s.next_entry
     FROM shipped_logs s JOIN attempts a ON a.attempt_id = s.attempt_id
     WHERE s.trimmed = 0 AND s.shipped_at < $1 AND a.updated_at < $1
       AND a.phase IN ('idle', 'settled')
       AND NOT EXISTS (SELECT 1 FROM finishes f
                       WHERE f.attempt_id = a.attempt_id AND f.state = 'open')
     ORDER BY s.shipped_at LIMIT $2";

type OldLog = (AttemptId, String, u64);

impl Store {
    /// Removes what is kept for other hosts of attempts that have been settled since before this time,
    /// in milliseconds. Returns how many rows that were.
    pub(super) async fn prune_settled(&self, before: i64) -> Result<u64, Refusal> {
        let mut pruned = 0;
        loop {
            let old: Vec<OldLog> =
                self.read(async |db| db.all(OLD_LOGS, (before, BATCH)).await).await?;
            for log in &old {
                pruned += self.trim(log).await?;
            }
            if old.len() < BATCH {
                break;
            }
        }
        Ok(pruned + self.prune_settled_bundles(before).await?)
    }

    /// Cuts the copy of a channel down to its newest chunk, unless it has grown.
    async fn trim(&self, log: &OldLog) -> Result<u64, Refusal> {
        self.beside(Patience::OneTry, "trimmed", async |db| trim(db, log).await).await
    }

    async fn prune_settled_bundles(&self, before: i64) -> Result<u64, Refusal> {
        // The row stays, without its content: so a call can say why it is not there.
        let over = "SELECT a.attempt_id FROM attempts a
             WHERE a.phase IN ('idle', 'settled') AND a.updated_at < $1
               AND a.attempt_id NOT IN (SELECT attempt_id FROM contestants)";
        let turns = format!(
            "UPDATE turn_bundles SET sha256 = NULL
             WHERE sha256 IS NOT NULL AND attempt_id IN ({over})"
        );
        let bases = "DELETE FROM base_bundles
             WHERE made_at < $1
               AND NOT EXISTS (SELECT 1 FROM base_bundles n
                               WHERE n.repo_id = base_bundles.repo_id
                                 AND n.needs = base_bundles.commit_id)
               AND NOT EXISTS (
                   SELECT 1 FROM attempt_repos r JOIN attempts a ON a.attempt_id = r.attempt_id
                   WHERE r.repo_id = base_bundles.repo_id
                     AND r.base_commit = base_bundles.commit_id
                     AND (a.phase NOT IN ('idle', 'settled') OR a.updated_at >= $1
                          OR EXISTS (SELECT 1 FROM turn_bundles t
                                     WHERE t.attempt_id = a.attempt_id
                                       AND t.sha256 IS NOT NULL)))";
        let of_turns = async |db: Db<'_>| {
            bundles::withdraw(db, over, before).await?;
            db.run(sqlx::AssertSqlSafe(turns), (before,)).await
        };
        let mut pruned = self.write(Patience::Short, "bundles_pruned", of_turns).await?;
        for _ in 0..ROUNDS {
            let run = async |db: Db<'_>| db.run(bases, (before,)).await;
            match self.write(Patience::Short, "bundles_pruned", run).await? {
                0 => break,
                removed => pruned += removed,
            }
        }
        Ok(pruned)
    }
}

async fn trim(db: Db<'_>, (attempt, channel, next_entry): &OldLog) -> Result<u64> {
    let sql = "UPDATE shipped_logs SET trimmed = 1
         WHERE attempt_id = $1 AND channel = $2 AND next_entry = $3 AND trimmed = 0";
    if db.run(sql, (attempt, channel, next_entry)).await? == 0 {
        return Ok(0);
    }
    let sql = "SELECT max(first_entry) FROM log_chunks WHERE attempt_id = $1 AND channel = $2";
    let last: Option<u64> = db.one(sql, (attempt, channel)).await?;
    let Some(last) = last else { return Ok(0) };
    let sql = "UPDATE shipped_logs SET oldest = $3
         WHERE attempt_id = $1 AND channel = $2 AND oldest < $3";
    db.run(sql, (attempt, channel, last)).await?;
    let sql = "DELETE FROM log_chunks WHERE attempt_id = $1 AND channel = $2 AND first_entry < $3";
    db.run(sql, (attempt, channel, last)).await
}

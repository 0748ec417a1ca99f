//! What a shared board keeps of attempts that settled long ago: the last chunk of the copy of each log, so
//! that its entries keep their numbers, and the bundles of work that is not merged yet.
//!
//! Small transactions delete the rows. Dropping partitions by time would be faster, but each attempt has
//! chunks in many partitions, and how long they are needed depends on when the attempt settled.

use provost_actors::ids::AttemptId;

use super::{Db, Refusal, Result, RetryBudget, Sql, Store, bundles};

/// How many copies are read at once.
const BATCH: usize = 50;
/// The rounds of one run: a base commit can be removed once no base that builds on it is left.
const ROUNDS: usize = 20;

/// The copies of logs that have not grown since `$1`, of attempts that settled before `$1`.
const OLD_LOGS: &str = "SELECT s.attempt_id, s.channel, s.next_entry
     FROM shipped_logs s JOIN attempts a ON a.attempt_id = s.attempt_id
     WHERE s.trimmed = 0 AND s.shipped_at < $1 AND a.updated_at < $1
       AND a.phase IN ('idle', 'settled')
       AND NOT EXISTS (SELECT 1 FROM finishes f
                       WHERE f.attempt_id = a.attempt_id AND f.state = 'open')
     ORDER BY s.shipped_at LIMIT $2";

/// An attempt, a channel, and the number of the next entry when the copy was read.
type OldLog = (AttemptId, String, u64);

impl Store {
    /// Removes what is kept for other hosts of attempts that settled before this time, in milliseconds.
    /// Returns how many rows changed.
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

    /// Cuts the copy of a channel down to its newest chunk, unless the copy has grown meanwhile.
    async fn trim(&self, log: &OldLog) -> Result<u64, Refusal> {
        self.beside(RetryBudget::OneTry, "trimmed", async |db| trim(db, log).await).await
    }

    /// Removes the contents of bundles of attempts whose work is merged or given up, and base commits that no
    /// attempt needs.
    async fn prune_settled_bundles(&self, before: i64) -> Result<u64, Refusal> {
        // The row stays without its content, so that a later call can say why the content is missing.
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
        let mut pruned = self.write(RetryBudget::Short, "bundles_pruned", of_turns).await?;
        for _ in 0..ROUNDS {
            let run = async |db: Db<'_>| db.run(bases, (before,)).await;
            match self.write(RetryBudget::Short, "bundles_pruned", run).await? {
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

//! Gives away the attempts of lost hosts. One transaction fences the host and changes its attempts, so that
//! the host's daemon writes nothing about them afterwards. A move of an attempt from a lost host does the
//! same.
//!
//! The possible results for an attempt (`LostAttemptAction`):
//!
//! ```text
//!  Stays       ─▶ unchanged: it waits for its host
//!  Moves       ─▶ queued, on no host
//!  BeginsAnew  ─▶ queued, on no host; its turn ended with the host, and the prompt gets another turn
//!  Ends        ─▶ settled, failed
//! ```

use std::collections::BTreeMap;

use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::journal::{LostAttempt, LostAttemptAction, lost};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::work::checks;
use super::{Db, Refusal, Result, RetryBudget, Sql, Store, comments, now, placement, task_status};

/// The attempts of a host that run or wait. `losses` counts how many of the last turns in a row ended because
/// their host was lost.
const STRANDED: &str = "SELECT a.attempt_id, a.phase, t.kind = 'answer' AS is_answer,
        EXISTS (SELECT 1 FROM finishes f WHERE f.state = 'open'
                AND (f.attempt_id = a.attempt_id OR f.request ->> 'onto' = a.attempt_id))
            AS is_finishing,
        a.attempt_id IN (SELECT intent ->> 'attempt_id' FROM requests
                         WHERE answer IS NULL AND intent IS NOT NULL) AS is_stopping,
        (SELECT process_id FROM processes
         WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
         ORDER BY turn DESC, process_id DESC LIMIT 1) AS process_id,
        (SELECT count(*) FROM processes l
         WHERE l.attempt_id = a.attempt_id AND l.lost_host IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM processes e
                           WHERE e.attempt_id = a.attempt_id AND e.run_reason = 'coding_agent'
                             AND e.ended_at IS NOT NULL AND e.lost_host IS NULL
                             AND e.turn > l.turn)) AS losses
     FROM attempts a JOIN tasks t ON t.task_id = a.task_id
     WHERE a.host = $1
       AND a.phase IN ('queued', 'preparing', 'running', 'stopping')
     ORDER BY a.created_at, a.attempt_id";

/// Why an attempt has ended that was running or waiting when the backup was made.
const RESTORED: &str =
    "the board was restored from a backup, so it is not known how far this has come";

impl Store {
    /// Gives up the lost hosts, each in a transaction of its own, so that others can write in between.
    /// Returns their names.
    pub(super) async fn sweep_lost_hosts(&self) -> Result<Vec<String>, Refusal> {
        let mut given_up = Vec::new();
        for host in self.read(async |db| lost_hosts(db).await).await? {
            let sweeping = async |db: Db<'_>| give_up(db, &host).await;
            if let Some(moved) = self.write(RetryBudget::OneTry, "sweep", sweeping).await? {
                self.announce_all(moved);
                given_up.push(host);
            }
        }
        Ok(given_up)
    }

    /// Records that the board was restored from a backup, so later changes are missing. Each host is given
    /// up, so that its daemon ends what is running. Attempts that were running or waiting in the backup end,
    /// so that nothing runs twice. Returns the new generation of the board, and how many attempts ended.
    pub async fn restored(&self) -> Result<(u64, usize), Refusal> {
        self.write(RetryBudget::Long, "restored", async |db| {
            let now = db.dialect().now;
            db.run(AssertSqlSafe(format!("UPDATE hosts SET fenced_at = {now}")), ()).await?;
            db.run("DELETE FROM host_calls", ()).await?;
            let hosts: Vec<String> = db.all("SELECT DISTINCT host FROM attempts", ()).await?;
            let mut ended = 0;
            for host in &hosts {
                let stranded: Vec<LostAttempt> = db.all(STRANDED, (host,)).await?;
                let ends =
                    stranded.iter().map(|it| (it, LostAttemptAction::Ends(RESTORED.to_owned())));
                ended += meet(db, host, ends.collect()).await?.len();
            }
            let sql = "UPDATE cluster SET generation = generation + 1 RETURNING generation";
            Ok((db.one(sql, ()).await?, ended))
        })
        .await
    }
}

/// The condition for a lost host, by the engine's clock: its lease has been over for a third of its length.
/// After the engine was away, each host first gets time to renew its lease.
fn is_lost(now: &str) -> String {
    format!(
        "fenced_at IS NULL AND lease_until + (lease_until - renewed_at) / 3 < {now}
         AND (SELECT no_sweep_before FROM cluster) < {now}"
    )
}

/// The names of the lost hosts.
async fn lost_hosts(db: Db<'_>) -> Result<Vec<String>> {
    let is_lost = is_lost(db.dialect().now);
    let sql = format!("SELECT host_id FROM hosts WHERE {is_lost} ORDER BY host_id");
    db.all(AssertSqlSafe(sql), ()).await
}

/// Fences a host if it is lost, and gives its attempts away; from then on its daemon commits nothing. Returns
/// the attempts that have changed; `None`: the host is not lost. Renewals of the host's lease do not wait for
/// this transaction.
pub(super) async fn give_up(db: Db<'_>, host: &str) -> Result<Option<Vec<AttemptId>>> {
    let now = db.dialect().now;
    let is_lost = is_lost(now);
    let sql = format!("UPDATE hosts SET fenced_at = {now} WHERE host_id = $1 AND {is_lost}");
    if db.run(AssertSqlSafe(sql), (host,)).await? == 0 {
        return Ok(None);
    }
    let stranded: Vec<LostAttempt> = db.all(STRANDED, (host,)).await?;
    let actions = stranded.iter().map(|it| (it, it.action(host))).collect();
    let moved = meet(db, host, actions).await?;
    checks::give_up(db, host).await?;
    placement::hint(db).await?;
    Ok(Some(moved))
}

/// Writes the result for each attempt, in a few statements for all. Returns the attempts that have changed.
async fn meet(
    db: Db<'_>,
    host: &str,
    actions: Vec<(&LostAttempt, LostAttemptAction)>,
) -> Result<Vec<AttemptId>> {
    let now = now();
    let (mut waiting, mut over) = (Vec::new(), Vec::new());
    let (mut ended, mut restarted) = (BTreeMap::<String, Vec<ProcessId>>::new(), Vec::new());
    for (attempt, action) in &actions {
        match action {
            LostAttemptAction::Stays => {}
            LostAttemptAction::Moves => waiting.push(attempt.attempt_id),
            LostAttemptAction::Restarts => {
                waiting.push(attempt.attempt_id);
                ended.entry(lost(host)).or_default().push(attempt.process_id);
                restarted.push(json!({"of": attempt.process_id, "id": ProcessId::new()}));
            }
            LostAttemptAction::Ends(why) => {
                over.push(*attempt);
                ended.entry(why.clone()).or_default().push(attempt.process_id);
            }
        }
    }
    let ending: Vec<AttemptId> = over.iter().map(|it| it.attempt_id).collect();
    let changed = [waiting.as_slice(), &ending].concat();
    if changed.is_empty() {
        return Ok(changed);
    }
    leave(db, &changed, now).await?;
    for (why, processes) in &ended {
        let sql = "UPDATE processes SET status = 'killed', failure_summary = $2, ended_at = $3,
                    closed = 1, lost_host = $4
             WHERE process_id IN (SELECT value FROM json_each($1))";
        db.run(sql, (processes, why, now, host)).await?;
    }
    requeue_turn(db, &restarted, now).await?;
    let sql = "UPDATE attempts SET host = '', phase = 'queued', state = 'idle', epoch = epoch + 1,
                updated_at = $2, revision = n.key + 1 + (SELECT max(revision) FROM attempts)
         FROM json_each($1) n WHERE attempt_id = n.value";
    db.run(sql, (&waiting, now)).await?;
    let sql = "UPDATE attempts SET phase = 'settled', state = 'failed', epoch = epoch + 1,
                updated_at = $2, queue_held = 1,
                revision = n.key + 1 + (SELECT max(revision) FROM attempts),
                settled_revision = n.key + 1 + (SELECT max(revision) FROM attempts)
         FROM json_each($1) n WHERE attempt_id = n.value";
    db.run(sql, (&ending, now)).await?;
    for attempt in over {
        comments::give_back_unbegun(db, attempt.process_id).await?;
        task_status::settled(db, attempt.attempt_id, now).await?;
    }
    Ok(changed)
}

/// Ends everything that the attempts had on the lost host: agents' sessions, processes of earlier turns,
/// scripts, dev servers, pending approvals, and snapshots that were due.
async fn leave(db: Db<'_>, attempts: &[AttemptId], now: i64) -> Result<()> {
    let sql = "UPDATE sessions SET executor_session_id = NULL
         WHERE attempt_id IN (SELECT value FROM json_each($1))";
    db.run(sql, (attempts,)).await?;
    let sql = "UPDATE approvals SET status = 'withdrawn', decided_at = $2
         WHERE attempt_id IN (SELECT value FROM json_each($1)) AND status = 'pending'";
    db.run(sql, (attempts, now)).await?;
    let sql = "UPDATE processes SET closed = 1, snapshot_due = 0
         WHERE attempt_id IN (SELECT value FROM json_each($1)) AND status <> 'planned'
           AND (closed = 0 OR snapshot_due = 1)";
    db.run(sql, (attempts,)).await?;
    let sql = "UPDATE processes SET status = 'killed', ended_at = $2
         WHERE attempt_id IN (SELECT value FROM json_each($1)) AND run_reason <> 'coding_agent'
           AND ended_at IS NULL";
    db.run(sql, (attempts, now)).await.map(drop)
}

/// Plans new turns with the prompts of turns that have ended. Each item has the process id of the old turn
/// (`of`) and of the new one (`id`). A review in the prompt stays sent.
async fn requeue_turn(db: Db<'_>, turns: &[Value], now: i64) -> Result<()> {
    let sql = "INSERT INTO processes (process_id, session_id, attempt_id, run_reason, turn, prompt,
                                      variant, status, queue_id, created_at)
         SELECT n.value ->> 'id', session_id, attempt_id, run_reason, turn + 1, prompt, variant,
                'planned', queue_id, CAST($2 AS BIGINT)
         FROM json_each($1) n JOIN processes ON process_id = n.value ->> 'of'";
    db.run(sql, (turns, now)).await.map(drop)
}

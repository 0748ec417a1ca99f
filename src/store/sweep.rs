//! The sweep of lost hosts: their attempts are given away. One transaction fences the host and
//! changes its attempts, so that nothing of it is written after that.

use provost_actors::ids::ProcessId;
use provost_actors::journal::{Fate, Phase, State, Stranded, lost};
use sqlx::AssertSqlSafe;

use super::{Db, Patience, Refusal, Result, Sql, Store, comments, now, placement, task_status};

/// The attempts of a host that run or wait. The losses are its last turns, without any other end
/// after them, that ended with their hosts.
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
     WHERE a.host = coalesce($1, a.host)
       AND a.phase IN ('queued', 'preparing', 'running', 'stopping')
     ORDER BY a.created_at, a.attempt_id";

/// Why an attempt has ended that ran or waited when the board was backed up.
const RESTORED: &str =
    "the board was restored from a backup, so it is not known how far this has come";

impl Store {
    pub(super) async fn sweep_lost_hosts(&self) -> Result<Vec<String>, Refusal> {
        if self.read(async |db| lost_hosts(db).await).await?.is_empty() {
            return Ok(Vec::new());
        }
        let (hosts, moved) = self
            .write(Patience::OneTry, "sweep", async |db| {
                let (mut hosts, mut moved) = (Vec::new(), Vec::new());
                for host in &lost_hosts(db).await? {
                    if !fence_lost(db, host).await? {
                        continue;
                    }
                    hosts.push(host.clone());
                    let stranded: Vec<Stranded> = db.all(STRANDED, (Some(host),)).await?;
                    for attempt in stranded {
                        if meet(db, host, &attempt, attempt.fate(host)).await? {
                            moved.push(attempt.attempt_id);
                        }
                    }
                }
                placement::hint(db).await?;
                Ok((hosts, moved))
            })
            .await?;
        for attempt in &moved {
            self.changes.announce(*attempt);
        }
        Ok(hosts)
    }

    /// Takes note that the board was restored from a backup: what has happened since is not on it.
    /// Each host is given up, so that its daemon ends what runs, and what ran or waited then has
    /// ended, so that nothing runs twice. Returns the new generation, and how many attempts ended.
    pub async fn restored(&self) -> Result<(u64, usize), Refusal> {
        self.write(Patience::Long, "restored", async |db| {
            let hosts: Vec<String> = db.all("SELECT host_id FROM hosts", ()).await?;
            for host in &hosts {
                fence(db, host).await?;
            }
            db.run("DELETE FROM host_calls", ()).await?;
            let stranded: Vec<Stranded> = db.all(STRANDED, (None::<&str>,)).await?;
            for attempt in &stranded {
                let sql = "SELECT host FROM attempts WHERE attempt_id = $1";
                let host: String = db.one(sql, (attempt.attempt_id,)).await?;
                meet(db, &host, attempt, Fate::Ends(RESTORED.to_owned())).await?;
            }
            let sql = "UPDATE cluster SET generation = generation + 1 RETURNING generation";
            Ok((db.one(sql, ()).await?, stranded.len()))
        })
        .await
    }
}

/// What is true of a host that is lost, by the engine's clock: the lease has been over for a third of
/// its time. After the engine was away, each gets the time to renew it.
fn is_lost(now: &str) -> String {
    format!(
        "fenced_at IS NULL AND lease_until + (lease_until - renewed_at) / 3 < {now}
         AND (SELECT no_sweep_before FROM cluster) < {now}"
    )
}

async fn lost_hosts(db: Db<'_>) -> Result<Vec<String>> {
    let is_lost = is_lost(db.dialect().now);
    let sql = format!("SELECT host_id FROM hosts WHERE {is_lost} ORDER BY host_id");
    db.all(AssertSqlSafe(sql), ()).await
}

/// Fences a host unless it has come back meanwhile: its renewals do not wait for this transaction.
async fn fence_lost(db: Db<'_>, host: &str) -> Result<bool> {
    let now = db.dialect().now;
    let is_lost = is_lost(now);
    let sql = format!("UPDATE hosts SET fenced_at = {now} WHERE host_id = $1 AND {is_lost}");
    Ok(db.run(AssertSqlSafe(sql), (host,)).await? > 0)
}

async fn fence(db: Db<'_>, host: &str) -> Result<()> {
    let now = db.dialect().now;
    let sql = format!("UPDATE hosts SET fenced_at = {now} WHERE host_id = $1");
    db.run(AssertSqlSafe(sql), (host,)).await.map(drop)
}

/// Writes what becomes of an attempt. `false`: nothing.
async fn meet(db: Db<'_>, host: &str, attempt: &Stranded, fate: Fate) -> Result<bool> {
    let (now, id) = (now(), attempt.attempt_id);
    let ends = match &fate {
        Fate::Stays => return Ok(false),
        Fate::Moves => None,
        Fate::BeginsAnew => Some(lost(host)),
        Fate::Ends(why) => Some(why.clone()),
    };
    leave(db, attempt, now).await?;
    if let Some(why) = ends {
        let sql = "UPDATE processes SET status = 'killed', failure_summary = $2, ended_at = $3,
                    closed = 1, lost_host = $4 WHERE process_id = $1";
        db.run(sql, (attempt.process_id, why, now, host)).await?;
    }
    if matches!(fate, Fate::BeginsAnew) {
        begin_anew(db, attempt.process_id, now).await?;
    }
    let is_over = matches!(fate, Fate::Ends(_));
    let (phase, state, host) = if is_over {
        (Phase::Settled, State::Failed, host)
    } else {
        (Phase::Queued, State::Idle, "")
    };
    let sql = "UPDATE attempts SET host = $2, phase = $3, state = $4, epoch = epoch + 1,
                updated_at = $5, revision = (SELECT max(revision) + 1 FROM attempts),
                queue_held = CASE WHEN $6 THEN 1 ELSE queue_held END,
                settled_revision = CASE WHEN $6 THEN (SELECT max(revision) + 1 FROM attempts)
                    ELSE settled_revision END
         WHERE attempt_id = $1";
    db.run(sql, (id, host, phase, state, now, is_over)).await?;
    if is_over {
        comments::give_back_unbegun(db, attempt.process_id).await?;
        task_status::settled(db, id, now).await?;
    }
    Ok(true)
}

/// Whatever the attempt had on the lost host counts as ended: the agent's session, what earlier
/// turns left running, scripts and dev servers, permissions that were asked for, and snapshots that
/// were still to be made.
async fn leave(db: Db<'_>, attempt: &Stranded, now: i64) -> Result<()> {
    let id = attempt.attempt_id;
    let sql = "UPDATE sessions SET executor_session_id = NULL WHERE attempt_id = $1";
    db.run(sql, (id,)).await?;
    let sql = "UPDATE approvals SET status = 'withdrawn', decided_at = $2
         WHERE attempt_id = $1 AND status = 'pending'";
    db.run(sql, (id, now)).await?;
    let sql = "UPDATE processes SET closed = 1, snapshot_due = 0
         WHERE attempt_id = $1 AND status <> 'planned' AND (closed = 0 OR snapshot_due = 1)";
    db.run(sql, (id,)).await?;
    let sql = "UPDATE processes SET status = 'killed', ended_at = $2
         WHERE attempt_id = $1 AND run_reason <> 'coding_agent' AND ended_at IS NULL";
    db.run(sql, (id, now)).await.map(drop)
}

/// Plans another turn with the prompt of one that has ended. A review that it carries stays sent.
async fn begin_anew(db: Db<'_>, process: ProcessId, now: i64) -> Result<()> {
    let sql = "INSERT INTO processes (process_id, session_id, attempt_id, run_reason, turn, prompt,
                                      variant, status, queue_id, created_at)
         SELECT $2, session_id, attempt_id, run_reason, turn + 1, prompt, variant, 'planned',
                queue_id, CAST($3 AS BIGINT)
         FROM processes WHERE process_id = $1";
    db.run(sql, (process, ProcessId::new(), now)).await.map(drop)
}

//! What a preparation provides for worktrees: processes of scripts, blocks of ports, and trusted commands.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, ProcessId};
use provost_actors::journal::{Attempt, PORTS_IN_BLOCK, Provisions, ScriptRow};
use serde_json::json;
use tokio::time::timeout;

use super::remote_commits::{POLL, hint_all};
use super::{Refusal, RetryBudget, Sql, Store, now};

/// The name of the hint that commands have become trusted.
const TRUST: &str = "trust";

impl Store {
    /// Records that a person approves the commands with this hash for a repository; a second time it changes
    /// nothing. Attempts that wait for the approval continue.
    pub async fn trust(
        &self,
        repo: &str,
        hash: &str,
        commands: &str,
        by: &str,
    ) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "trust", async |db| {
            let row = json!({
                "repo": repo, "hash": hash, "commands": commands, "approved_at": now(),
                "approved_by": by,
            });
            db.insert_new("INTO trust", row).await?;
            hint_all(db, TRUST).await
        })
        .await
    }

    /// Takes back all approvals of a repository's commands. Returns how many there were.
    pub async fn distrust(&self, repo: &str) -> Result<u64, Refusal> {
        let sql = "DELETE FROM trust WHERE repo = $1";
        self.write(RetryBudget::Long, "distrust", async |db| db.run(sql, (repo,)).await).await
    }
}

/// The attempt's owner makes these writes, and tries again by itself.
#[async_trait]
impl Provisions for Store {
    async fn record_script(&self, attempt: &Attempt, script: &ScriptRow) -> Result<(), Refusal> {
        self.write(RetryBudget::OneTry, "script", async |db| {
            let row = json!({
                "process_id": script.process_id, "session_id": attempt.session_id,
                "attempt_id": attempt.attempt_id, "run_reason": script.run_reason,
                "turn": attempt.process.turn, "prompt": script.command, "status": script.status,
                "created_at": now(),
            });
            db.insert_new("INTO processes", row).await?;
            // Nothing of a script is alive once it has ended.
            let sql = "UPDATE processes SET status = $2, exit_code = $3, exit_signal = $4,
                        failure_summary = $5, ended_at = $6, closed = CASE WHEN CAST($6 AS BIGINT) IS NULL THEN 0 ELSE 1 END,
                        sandbox = COALESCE($7, sandbox)
                 WHERE process_id = $1";
            let ended_at = script.ended_at.map(Timestamp::millis);
            let ScriptRow {
                process_id,
                status,
                exit_code,
                exit_signal,
                failure_summary,
                sandbox,
                ..
            } = script;
            let dialect = db.dialect();
            let failure_summary = failure_summary.as_deref().map(|it| dialect.storable(it));
            let values =
                (process_id, status, exit_code, exit_signal, failure_summary, ended_at, sandbox);
            db.run(sql, values).await?;
            Ok(())
        })
        .await
    }

    async fn take_ports(
        &self,
        attempt: AttemptId,
        blocks: &[u16],
        busy: &[u16],
    ) -> Result<Option<u16>, Refusal> {
        self.write(RetryBudget::OneTry, "ports", async |db| {
            let sql = "SELECT first_port FROM ports WHERE attempt_id = $1";
            let own: Option<u16> = db.find(sql, (attempt,)).await?;
            if own.is_some_and(|own| !busy.contains(&own)) {
                return Ok(own);
            }
            db.run("DELETE FROM ports WHERE attempt_id = $1", (attempt,)).await?;
            let taken: Vec<u16> = db.all("SELECT first_port FROM ports", ()).await?;
            let is_free = |block: &u16| {
                // The configured range may have started at another port when the others were taken.
                let overlaps = |other: &u16| other.abs_diff(*block) < PORTS_IN_BLOCK;
                !taken.iter().any(overlaps) && !busy.contains(block)
            };
            let Some(block) = blocks.iter().copied().find(is_free) else { return Ok(None) };
            let row = json!({"first_port": block, "attempt_id": attempt, "taken_at": now()});
            db.insert("INTO ports", row).await?;
            Ok(Some(block))
        })
        .await
    }

    async fn give_back_ports(&self, attempt: AttemptId) -> Result<(), Refusal> {
        let sql = "DELETE FROM ports WHERE attempt_id = $1";
        self.write(RetryBudget::Long, "ports", async |db| db.run(sql, (attempt,)).await).await?;
        Ok(())
    }

    async fn open_dev_servers(&self) -> Result<Vec<(AttemptId, ProcessId)>, Refusal> {
        let sql = "SELECT x.attempt_id, x.process_id
             FROM processes x JOIN attempts a ON a.attempt_id = x.attempt_id
             WHERE a.host = $1 AND x.run_reason = 'dev_server' AND x.ended_at IS NULL";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    async fn port_holders(&self) -> Result<Vec<AttemptId>, Refusal> {
        let sql = "SELECT p.attempt_id FROM ports p JOIN attempts a ON a.attempt_id = p.attempt_id
             WHERE a.host = $1";
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    async fn is_trusted(&self, repo: &str, hash: &str) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM trust WHERE repo = $1 AND hash = $2)";
        self.read(async |db| db.one(sql, (repo, hash)).await).await
    }

    async fn trust_news(&self) {
        let _ = timeout(POLL, self.changes.watch(&[TRUST]).changed()).await;
    }
}

//! Calls that other hosts carry out: asked by one daemon, taken and answered by another. The rows hold the
//! truth; a hint only announces them sooner. The rows are written beside the transactions of the board,
//! because a followed log makes many such calls.
//!
//! ```text
//!  asked ─take_host_calls─▶ taken (by an incarnation) ─answer_host_call─▶ answered ─forget─▶ (gone)
//!    │                        └─a new incarnation of the host takes it again
//!    └─withdraw_host_call, also while taken─▶ (gone)         prune_host_calls removes what is old
//! ```

use std::time::Duration;

use provost_actors::event::Timestamp;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::changes::ChangeWatch;
use super::remote_commits::hint;
use super::{Code, Refusal, RetryBudget, Sql, Store, StoreError, now};
use crate::api::{ForwardedCall, Idempotent};

/// The name of the hint that there may be a call for this host.
const CALLS: &str = "calls";
/// How long an answer is kept for its asker, and how long a call that was taken may stay unanswered.
const KEEP: Duration = Duration::from_mins(30);

/// The result of a forwarded call: the answer of the tool, or its refusal.
pub type HostAnswer = Result<Idempotent<Value>, Refusal>;

impl Store {
    /// Asks a host to carry out a call. The host does not begin it after `deadline`.
    pub async fn ask_host(
        &self,
        id: &str,
        host: &str,
        call: &ForwardedCall,
        deadline: Timestamp,
    ) -> Result<(), Refusal> {
        self.beside(RetryBudget::Short, "host_call", async |db| {
            let row = json!({
                "call_id": id, "host": host, "asked_by": &*self.host, "call": call,
                "asked_at": now(), "deadline": deadline.millis(),
            });
            db.insert("INTO host_calls", row).await?;
            hint(db, host, CALLS).await
        })
        .await
    }

    /// A watch that wakes when this call may have been answered.
    pub fn watch_host_call(&self, id: &str) -> ChangeWatch {
        self.changes.watch(&[id])
    }

    /// A watch that wakes when there may be a call for this host.
    pub fn watch_host_calls(&self) -> ChangeWatch {
        self.changes.watch(&[CALLS])
    }

    /// The answer to a call; `None`: there is none yet.
    pub async fn host_answer(&self, id: &str) -> Result<Option<HostAnswer>, Refusal> {
        let sql = "SELECT answer FROM host_calls WHERE call_id = $1 AND answered_at IS NOT NULL";
        let answer: Option<String> = self.read(async |db| db.find(sql, (id,)).await).await?;
        let Some(answer) = answer else { return Ok(None) };
        let answer: Result<(Value, bool), Refusal> =
            serde_json::from_str(&answer).map_err(StoreError::from)?;
        Ok(Some(answer.map(|(value, deduplicated)| Idempotent { value, deduplicated })))
    }

    /// Takes back a call, so that its host does not begin it later. Returns whether the host had begun it
    /// already; `None`: the call is answered, or gone.
    pub async fn withdraw_host_call(&self, id: &str) -> Result<Option<bool>, Refusal> {
        let sql = "DELETE FROM host_calls WHERE call_id = $1 AND answered_at IS NULL
             RETURNING taken_by IS NOT NULL";
        self.beside(RetryBudget::Short, "host_call", async |db| db.find(sql, (id,)).await).await
    }

    /// Removes a call whose asker has the answer, because the answer may be large.
    pub async fn forget_host_call(&self, id: &str) -> Result<(), Refusal> {
        let sql = "DELETE FROM host_calls WHERE call_id = $1";
        self.beside(RetryBudget::Short, "host_call", async |db| db.run(sql, (id,)).await.map(drop))
            .await
    }

    /// Takes the calls that this host must carry out: new ones, and those that an earlier incarnation or this
    /// one took and did not answer, except for the `running` ones.
    pub async fn take_host_calls(
        &self,
        incarnation: u64,
        running: &[String],
    ) -> Result<Vec<(String, ForwardedCall)>, Refusal> {
        // A host that was given up begins no call.
        let open = "host = $1 AND answered_at IS NULL
             AND EXISTS (SELECT 1 FROM hosts h
                         WHERE h.host_id = $1 AND h.incarnation = $2 AND h.fenced_at IS NULL)
             AND (taken_by IS NULL AND deadline > $3 OR taken_by <= $2 AND deadline > $5)
             AND call_id NOT IN (SELECT value FROM json_each($4))";
        let values = (&self.host, incarnation, now(), running, long_ago());
        let sql = AssertSqlSafe(format!("SELECT EXISTS (SELECT 1 FROM host_calls WHERE {open})"));
        if !self.read(async |db| db.one(sql, values).await).await? {
            return Ok(Vec::new());
        }
        let sql = AssertSqlSafe(format!(
            "UPDATE host_calls SET taken_by = $2 WHERE {open} RETURNING call_id, call"
        ));
        let rows: Vec<(String, String)> = self
            .beside(RetryBudget::OneTry, "host_calls", async |db| db.all(sql, values).await)
            .await?;
        let mut calls = Vec::new();
        for (id, call) in rows {
            match serde_json::from_str(&call) {
                Ok(call) => calls.push((id, call)),
                // The daemon that asked has another version.
                Err(error) => self.answer_host_call(&id, &Err(unread(&self.host, &error))).await?,
            }
        }
        Ok(calls)
    }

    /// Writes the answer to a call that this host has carried out, and wakes the asker. Does nothing if the
    /// call was withdrawn.
    pub async fn answer_host_call(&self, id: &str, answer: &HostAnswer) -> Result<(), Refusal> {
        let answer = answer.as_ref().map(|it| (&it.value, it.deduplicated));
        let answer = json!(answer);
        self.beside(RetryBudget::Long, "host_answer", async |db| {
            let sql = "UPDATE host_calls SET answer = $2, answered_at = $3 WHERE call_id = $1
                 RETURNING asked_by";
            let asked_by: Option<String> = db.find(sql, (id, &answer, now())).await?;
            match asked_by {
                Some(asked_by) => hint(db, &asked_by, id).await,
                None => Ok(()),
            }
        })
        .await
    }

    /// Removes old answers, and calls whose deadline is long over. Returns how many.
    pub async fn prune_host_calls(&self) -> Result<u64, Refusal> {
        let sql = "DELETE FROM host_calls WHERE answered_at < $1
             OR answered_at IS NULL AND deadline < $1";
        self.beside(RetryBudget::Short, "pruned", async |db| db.run(sql, (long_ago(),)).await).await
    }
}

/// The time before which a call or an answer is too old: its asker has given up.
fn long_ago() -> i64 {
    now().saturating_sub(i64::try_from(KEEP.as_millis()).unwrap_or(i64::MAX))
}

fn unread(host: &str, error: &serde_json::Error) -> Refusal {
    let message =
        format!("host {host} can't read this call, so its daemon is of another version: {error}");
    Refusal::new(Code::DaemonUnavailable, message)
        .hint("Run the same version of Provost on all hosts, then call the tool again.")
}

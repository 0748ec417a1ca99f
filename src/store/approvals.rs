//! The permissions that executors ask for. Each is written once and decided once.
//!
//! ```text
//!  pending ─a decision─────────────────▶ approved or denied
//!    │ ▲
//!    │ └──asked again, for an attempt itself──┐
//!    └─its process or its attempt ends─▶ withdrawn
//! ```

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{ApprovalId, AttemptId, ProcessId};
use provost_actors::journal::{Approval, ApprovalStatus, Approvals, Decision, Idempotent, Key};
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::{Db, Page, Refusal, Result, RetryBudget, Sql, Store, now};

impl Store {
    /// A page of approvals, newest first: those of an attempt, of a state, or asked for before `before`; each
    /// `None` admits all.
    pub async fn approvals(
        &self,
        attempt: Option<AttemptId>,
        status: Option<ApprovalStatus>,
        before: Option<ApprovalId>,
        limit: usize,
    ) -> Result<Page<Approval>, Refusal> {
        let sql = "SELECT * FROM approvals
             WHERE (attempt_id = $1 OR $1 IS NULL) AND (status = $2 OR $2 IS NULL)
               AND (approval_id < $3 OR $3 IS NULL)
             ORDER BY approval_id DESC LIMIT $4";
        let found =
            self.read(async |db| db.all(sql, (attempt, status, before, limit + 1)).await).await?;
        Ok(Page::cut(found, limit))
    }
}

/// The attempt's owner makes these writes, and tries again by itself.
#[async_trait]
impl Approvals for Store {
    async fn ask(&self, asked: &Approval) -> Result<Approval, Refusal> {
        let written = self
            .write(RetryBudget::OneTry, "approval", async |db| {
                if asked.of_attempt {
                    let of_other = format!(
                        "SELECT p.* {OF_PROJECT} AND p.attempt_id <> $1
                         AND p.request_key = $2 AND p.status <> 'withdrawn' ORDER BY 1 LIMIT 1"
                    );
                    let key = &asked.request.key;
                    let found = db.find(AssertSqlSafe(of_other), (asked.attempt_id, key)).await?;
                    if let Some(found) = found {
                        return Ok(found);
                    }
                }
                // An executor repeats a request under the same key: then the row exists already.
                let row = json!({
                    "approval_id": asked.approval_id, "attempt_id": asked.attempt_id,
                    "process_id": asked.process_id, "request_key": asked.request.key,
                    "request": asked.request, "status": asked.status,
                    "asked_at": asked.asked_at.millis(),
                    "expires_at": asked.expires_at.map(Timestamp::millis),
                    "of_attempt": i64::from(asked.of_attempt),
                });
                if db.insert_new("INTO approvals", row).await? > 0 {
                    withdraw_if_ended(db, asked.process_id).await?;
                    count_change(db, asked.attempt_id).await?;
                }
                let Approval { attempt_id, process_id, of_attempt, .. } = asked;
                let (key, of_attempt) = (&asked.request.key, i64::from(*of_attempt));
                let sql =
                    "UPDATE approvals SET status = 'pending', asked_at = $4, decided_at = NULL
                     WHERE attempt_id = $1 AND request_key = $2 AND of_attempt = 1 AND $3 = 1
                       AND status = 'withdrawn'";
                let values = (attempt_id, key, of_attempt, asked.asked_at.millis());
                if db.run(sql, values).await? > 0 {
                    count_change(db, *attempt_id).await?;
                }
                // An executor may have used the same key for a request of its own.
                let sql = "SELECT * FROM approvals
                     WHERE request_key = $3 AND (process_id = $2
                         OR attempt_id = $1 AND of_attempt = 1 AND $4 = 1)
                     ORDER BY of_attempt = $4 DESC LIMIT 1";
                db.one(sql, (attempt_id, process_id, key, of_attempt)).await
            })
            .await?;
        self.changes.announce(asked.attempt_id);
        Ok(written)
    }

    async fn approved_of_project(&self, attempt: AttemptId) -> Result<Vec<String>, Refusal> {
        let sql = format!("SELECT DISTINCT p.request_key {OF_PROJECT} AND p.status = 'approved'");
        self.read(async |db| db.all(AssertSqlSafe(sql.clone()), (attempt,)).await).await
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, Refusal> {
        self.read(async |db| db.find(BY_ID, (id,)).await).await
    }

    async fn approvals_of(&self, process: ProcessId) -> Result<Vec<Approval>, Refusal> {
        let sql = "SELECT * FROM approvals WHERE process_id = $1 ORDER BY approval_id";
        self.read(async |db| db.all(sql, (process,)).await).await
    }

    async fn withdraw_of_attempt(&self, attempt: AttemptId) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "withdrawal", async |db| {
            let sql = "UPDATE approvals SET status = 'withdrawn', decided_at = $2
                 WHERE attempt_id = $1 AND of_attempt = 1 AND status = 'pending'";
            if db.run(sql, (attempt, now())).await? > 0 {
                count_change(db, attempt).await?;
            }
            Ok(())
        })
        .await?;
        self.changes.announce(attempt);
        Ok(())
    }

    async fn decide(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Idempotent<Approval>, Refusal> {
        let decided = self
            .keyed(RetryBudget::OneTry, key, "verdict", async |db| {
                let found: Option<Approval> = db.find(BY_ID, (approval,)).await?;
                let mut found = found
                    .ok_or_else(|| Refusal::internal(format!("there is no approval {approval}")))?;
                if found.admits(decision)? {
                    let now = Timestamp::now();
                    found.status = decision.status();
                    found.reason = decision.reason().map(str::to_owned);
                    found.decided_at = Some(now);
                    let sql = "UPDATE approvals SET status = $2, reason = $3, decided_at = $4
                         WHERE approval_id = $1";
                    db.run(sql, (approval, found.status, &found.reason, now.millis())).await?;
                    count_change(db, found.attempt_id).await?;
                }
                Ok(found)
            })
            .await?;
        self.changes.announce(decided.value.attempt_id);
        Ok(decided)
    }
}

/// The approvals of attempts themselves (not of their processes) in the project of the attempt `$1`.
const OF_PROJECT: &str = "FROM approvals p
     JOIN attempts a ON a.attempt_id = p.attempt_id JOIN tasks t ON t.task_id = a.task_id
     WHERE p.of_attempt = 1 AND t.project_id = (
         SELECT own.project_id FROM attempts b JOIN tasks own ON own.task_id = b.task_id
         WHERE b.attempt_id = $1)";
const BY_ID: &str = "SELECT * FROM approvals WHERE approval_id = $1";

/// Gives the attempt a new revision, because it begins or ends to wait: waiters are woken for revisions.
pub(super) async fn count_change(db: Db<'_>, attempt: AttemptId) -> Result<u64> {
    let sql = "UPDATE attempts SET revision = (SELECT max(revision) + 1 FROM attempts),
                updated_at = $2 WHERE attempt_id = $1";
    db.run(sql, (attempt, now())).await
}

/// Withdraws the pending approvals of a process that has ended. This also covers a request that is read from
/// the log after the process was stopped. Part of a transaction.
pub(super) async fn withdraw_if_ended(db: Db<'_>, process: ProcessId) -> Result<u64> {
    let sql = "UPDATE approvals SET status = 'withdrawn', decided_at = $2
         WHERE process_id = $1 AND status = 'pending' AND of_attempt = 0
           AND (SELECT ended_at IS NOT NULL FROM processes WHERE process_id = $1)";
    db.run(sql, (process, now())).await
}

//! The permissions that executors ask for: written once each, decided once.

use provost_actors::event::Timestamp;
use provost_actors::ids::{ApprovalId, AttemptId, ProcessId};
use provost_actors::journal::{Answer, Approval, ApprovalStatus, Decision, Key};
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use super::{Page, Store, Writing, codec, commit, fault, requests, rows_for};

/// Which approvals to list.
#[derive(Clone, Debug, Default)]
pub struct ApprovalFilter {
    pub attempt: Option<AttemptId>,
    pub status: Option<ApprovalStatus>,
    pub limit: usize,
    /// List those that were asked for before this one.
    pub before: Option<ApprovalId>,
}

#[derive(FromRow)]
struct ApprovalRow {
    approval_id: String,
    attempt_id: String,
    process_id: String,
    request: String,
    status: String,
    reason: Option<String>,
    asked_at: i64,
    expires_at: Option<i64>,
    decided_at: Option<i64>,
}

impl ApprovalRow {
    fn approval(self) -> Result<Approval, Refusal> {
        let request = serde_json::from_str(&self.request);
        Ok(Approval {
            approval_id: codec::id(&self.approval_id)?,
            attempt_id: codec::id(&self.attempt_id)?,
            process_id: codec::id(&self.process_id)?,
            request: request.map_err(|error| Refusal::internal(error.to_string()))?,
            status: codec::enumerated(self.status)?,
            reason: self.reason,
            asked_at: Timestamp::from_millis(self.asked_at),
            expires_at: self.expires_at.map(Timestamp::from_millis),
            decided_at: self.decided_at.map(Timestamp::from_millis),
        })
    }
}

impl Store {
    /// Approvals, newest first.
    pub async fn approvals(&self, filter: &ApprovalFilter) -> Result<Page<Approval>, Refusal> {
        let rows: Vec<ApprovalRow> = sqlx::query_as(
            "SELECT * FROM approvals
             WHERE (?1 IS NULL OR attempt_id = ?1) AND (?2 IS NULL OR status = ?2)
               AND (?3 IS NULL OR approval_id < ?3)
             ORDER BY approval_id DESC LIMIT ?4",
        )
        .bind(filter.attempt.map(|id| id.to_string()))
        .bind(filter.status.map(ApprovalStatus::as_str))
        .bind(filter.before.map(|id| id.to_string()))
        .bind(rows_for(filter.limit))
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let items = rows.into_iter().map(ApprovalRow::approval).collect::<Result<_, _>>()?;
        Ok(Page::cut(items, filter.limit))
    }

    pub(super) async fn insert_approval(&self, approval: &Approval) -> Result<Approval, Refusal> {
        let mut writing = self.writing_briefly().await?;
        let request = serde_json::to_string(&approval.request)
            .map_err(|error| Refusal::internal(error.to_string()))?;
        let made = sqlx::query(
            "INSERT INTO approvals (approval_id, attempt_id, process_id, request_key, request,
                                    status, asked_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (process_id, request_key) DO NOTHING",
        )
        .bind(approval.approval_id.to_string())
        .bind(approval.attempt_id.to_string())
        .bind(approval.process_id.to_string())
        .bind(&approval.request.key)
        .bind(request)
        .bind(approval.status.as_str())
        .bind(approval.asked_at.millis())
        .bind(approval.expires_at.map(Timestamp::millis))
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        if made.rows_affected() > 0 {
            withdraw_if_ended(&mut writing, approval.process_id).await?;
            count_change(&mut writing, approval.attempt_id).await?;
        }
        let row: ApprovalRow =
            sqlx::query_as("SELECT * FROM approvals WHERE process_id = ?1 AND request_key = ?2")
                .bind(approval.process_id.to_string())
                .bind(&approval.request.key)
                .fetch_one(&mut *writing)
                .await
                .map_err(fault)?;
        commit(writing, "approval").await?;
        self.changes.announce(approval.attempt_id);
        row.approval()
    }

    pub(super) async fn load_approval(
        &self,
        approval: ApprovalId,
    ) -> Result<Option<Approval>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        one(&mut reading, approval).await
    }

    pub(super) async fn load_approvals_of(
        &self,
        process: ProcessId,
    ) -> Result<Vec<Approval>, Refusal> {
        let rows: Vec<ApprovalRow> =
            sqlx::query_as("SELECT * FROM approvals WHERE process_id = ?1 ORDER BY approval_id")
                .bind(process.to_string())
                .fetch_all(&self.reader)
                .await
                .map_err(fault)?;
        rows.into_iter().map(ApprovalRow::approval).collect()
    }

    pub(super) async fn decide_approval(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Answer<Approval>, Refusal> {
        let mut writing = self.writing_briefly().await?;
        if let Some(answer) = requests::kept(&mut writing, key).await? {
            return Ok(answer);
        }
        let found = one(&mut writing, approval).await?;
        let mut found =
            found.ok_or_else(|| Refusal::internal(format!("there is no approval {approval}")))?;
        if found.admits(decision)? {
            found.status = decision.status();
            found.reason = decision.reason().map(str::to_owned);
            found.decided_at = Some(Timestamp::now());
            sqlx::query(
                "UPDATE approvals SET status = ?2, reason = ?3, decided_at = ?4
                 WHERE approval_id = ?1",
            )
            .bind(approval.to_string())
            .bind(found.status.as_str())
            .bind(&found.reason)
            .bind(found.decided_at.map(Timestamp::millis))
            .execute(&mut *writing)
            .await
            .map_err(fault)?;
            count_change(&mut writing, found.attempt_id).await?;
        }
        let answer = requests::keep(&mut writing, key, found).await?;
        commit(writing, "verdict").await?;
        self.changes.announce(answer.value.attempt_id);
        Ok(answer)
    }
}

async fn one(reading: Writing<'_>, approval: ApprovalId) -> Result<Option<Approval>, Refusal> {
    let row: Option<ApprovalRow> = sqlx::query_as("SELECT * FROM approvals WHERE approval_id = ?1")
        .bind(approval.to_string())
        .fetch_optional(reading)
        .await
        .map_err(fault)?;
    row.map(ApprovalRow::approval).transpose()
}

/// An attempt stands otherwise than before: it waits, or goes on.
async fn count_change(writing: Writing<'_>, attempt: AttemptId) -> Result<(), Refusal> {
    sqlx::query(
        "UPDATE attempts SET revision = (SELECT max(revision) + 1 FROM attempts), updated_at = ?2
         WHERE attempt_id = ?1",
    )
    .bind(attempt.to_string())
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map(drop)
    .map_err(fault)
}

/// What is read late of a process that was stopped.
async fn withdraw_if_ended(writing: Writing<'_>, process: ProcessId) -> Result<(), Refusal> {
    let process = process.to_string();
    let has_ended: bool =
        sqlx::query_scalar("SELECT ended_at IS NOT NULL FROM processes WHERE process_id = ?1")
            .bind(&process)
            .fetch_one(&mut *writing)
            .await
            .map_err(fault)?;
    if has_ended { withdraw_all(writing, &process).await.map_err(fault) } else { Ok(()) }
}

/// A process that has ended waits for nothing. Part of a transaction.
pub(super) async fn withdraw_all(writing: Writing<'_>, process: &str) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE approvals SET status = 'withdrawn', decided_at = ?2
         WHERE process_id = ?1 AND status = 'pending'",
    )
    .bind(process)
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map(drop)
}

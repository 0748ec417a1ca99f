//! The permissions that executors ask for: written once each, decided once.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::executor::Request;
use provost_actors::ids::{ApprovalId, AttemptId, ProcessId};
use provost_actors::journal::{Approval, ApprovalStatus, Approvals, Decision, Key, Once};
use provost_actors::refusal::Refusal;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::codec::{Columns, Text};
use super::write_retry::Patience;
use super::{Page, Result, Store, Writing, rows_for};

/// Which approvals to list.
#[derive(Clone, Debug, Default)]
pub struct ApprovalFilter {
    pub attempt: Option<AttemptId>,
    pub status: Option<ApprovalStatus>,
    pub limit: usize,
    /// List those that were asked for before this one.
    pub before: Option<ApprovalId>,
}

/// An approval from a row of `approvals`.
fn approval(row: &SqliteRow) -> sqlx::Result<Approval> {
    Ok(Approval {
        approval_id: row.text("approval_id")?,
        attempt_id: row.text("attempt_id")?,
        process_id: row.text("process_id")?,
        request: row.json::<Request>("request")?,
        status: row.text("status")?,
        reason: row.try_get("reason")?,
        asked_at: row.at("asked_at")?,
        expires_at: row.maybe_at("expires_at")?,
        decided_at: row.maybe_at("decided_at")?,
    })
}

impl Store {
    /// Approvals, newest first.
    pub async fn approvals(&self, filter: &ApprovalFilter) -> Result<Page<Approval>, Refusal> {
        self.read(async |reading| {
            let items = sqlx::query(
                "SELECT * FROM approvals
                 WHERE (?1 IS NULL OR attempt_id = ?1) AND (?2 IS NULL OR status = ?2)
                   AND (?3 IS NULL OR approval_id < ?3)
                 ORDER BY approval_id DESC LIMIT ?4",
            )
            .bind(filter.attempt.map(Text))
            .bind(filter.status.map(Text))
            .bind(filter.before.map(Text))
            .bind(rows_for(filter.limit))
            .try_map(|row| approval(&row))
            .fetch_all(reading)
            .await?;
            Ok(Page::cut(items, filter.limit))
        })
        .await
    }
}

/// The attempt's owner writes these, and tries again by itself.
#[async_trait]
impl Approvals for Store {
    async fn ask(&self, asked: &Approval) -> Result<Approval, Refusal> {
        let written = self
            .write(Patience::Brief, "approval", async |writing| {
                if insert(writing, asked).await? {
                    withdraw_if_ended(writing, asked.process_id).await?;
                    count_change(writing, asked.attempt_id).await?;
                }
                Ok(sqlx::query(
                    "SELECT * FROM approvals WHERE process_id = ?1 AND request_key = ?2",
                )
                .bind(Text(asked.process_id))
                .bind(&asked.request.key)
                .try_map(|row| approval(&row))
                .fetch_one(writing)
                .await?)
            })
            .await?;
        self.changes.announce(asked.attempt_id);
        Ok(written)
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, Refusal> {
        self.read(async |reading| one(reading, id).await).await
    }

    async fn approvals_of(&self, process: ProcessId) -> Result<Vec<Approval>, Refusal> {
        self.read(async |reading| {
            Ok(sqlx::query("SELECT * FROM approvals WHERE process_id = ?1 ORDER BY approval_id")
                .bind(Text(process))
                .try_map(|row| approval(&row))
                .fetch_all(reading)
                .await?)
        })
        .await
    }

    async fn decide(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Once<Approval>, Refusal> {
        let decided = self
            .keyed(Patience::Brief, key, "verdict", async |writing| {
                let found = one(writing, approval).await?;
                let mut found = found
                    .ok_or_else(|| Refusal::internal(format!("there is no approval {approval}")))?;
                if found.admits(decision)? {
                    found.status = decision.status();
                    found.reason = decision.reason().map(str::to_owned);
                    found.decided_at = Some(Timestamp::now());
                    write_decision(writing, &found).await?;
                    count_change(writing, found.attempt_id).await?;
                }
                Ok(found)
            })
            .await?;
        self.changes.announce(decided.value.attempt_id);
        Ok(decided)
    }
}

/// Whether it was not there yet.
async fn insert(writing: Writing<'_>, approval: &Approval) -> Result<bool> {
    let made = sqlx::query(
        "INSERT INTO approvals (approval_id, attempt_id, process_id, request_key, request,
                                status, asked_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (process_id, request_key) DO NOTHING",
    )
    .bind(Text(approval.approval_id))
    .bind(Text(approval.attempt_id))
    .bind(Text(approval.process_id))
    .bind(&approval.request.key)
    .bind(serde_json::to_string(&approval.request)?)
    .bind(Text(approval.status))
    .bind(approval.asked_at.millis())
    .bind(approval.expires_at.map(Timestamp::millis))
    .execute(writing)
    .await?;
    Ok(made.rows_affected() > 0)
}

async fn one(reading: Writing<'_>, id: ApprovalId) -> Result<Option<Approval>> {
    Ok(sqlx::query("SELECT * FROM approvals WHERE approval_id = ?1")
        .bind(Text(id))
        .try_map(|row| approval(&row))
        .fetch_optional(reading)
        .await?)
}

async fn write_decision(writing: Writing<'_>, decided: &Approval) -> Result<()> {
    sqlx::query(
        "UPDATE approvals SET status = ?2, reason = ?3, decided_at = ?4 WHERE approval_id = ?1",
    )
    .bind(Text(decided.approval_id))
    .bind(Text(decided.status))
    .bind(&decided.reason)
    .bind(decided.decided_at.map(Timestamp::millis))
    .execute(writing)
    .await?;
    Ok(())
}

/// Notes that the attempt waits now, or goes on: a change that waiters are woken for.
async fn count_change(writing: Writing<'_>, attempt: AttemptId) -> Result<()> {
    sqlx::query(
        "UPDATE attempts SET revision = (SELECT max(revision) + 1 FROM attempts), updated_at = ?2
         WHERE attempt_id = ?1",
    )
    .bind(Text(attempt))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok(())
}

/// A process that has ended waits for nothing: not for what it asked before, nor for a
/// request that is read from its log after it was stopped. Part of a transaction.
pub(super) async fn withdraw_if_ended(writing: Writing<'_>, process: ProcessId) -> Result<()> {
    sqlx::query(
        "UPDATE approvals SET status = 'withdrawn', decided_at = ?2
         WHERE process_id = ?1 AND status = 'pending'
           AND (SELECT ended_at IS NOT NULL FROM processes WHERE process_id = ?1)",
    )
    .bind(Text(process))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok(())
}

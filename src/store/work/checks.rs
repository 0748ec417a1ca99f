//! Check runs: planned with the report that is to be checked, their receipts, and
//! what they make of the task.

use provost_actors::event::Timestamp;
use provost_actors::ids::{CheckRunId, TaskId};
use provost_actors::journal::check::{
    CheckOutcome, CheckRun, CheckVerdict, CheckedRepo, Delivered, Receipt, all_passed,
};
use provost_actors::journal::{Standing, TaskStatus};
use provost_actors::refusal::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::FromRow;

use super::{cascade, scope, standing};
use crate::store::{Store, Writing, codec, commit, fault};
use crate::work::report::{Becomes, closed};
use crate::work::{TaskKind, Worker};

/// Writes down what is reported done, within the report's transaction. Whether there
/// is something to be checked: then the task is `reported` until it has been.
pub async fn plan(
    writing: Writing<'_>,
    task: TaskId,
    delivered: &Delivered,
    claims_passed: bool,
) -> Result<bool, Refusal> {
    let now = Timestamp::now().millis();
    let is_checked = !delivered.checks.is_empty();
    sqlx::query(
        "INSERT INTO check_runs (run_id, task_id, attempt_id, repos, checks, is_empty_diff,
                                 claims_passed, planned_at, closed_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .bind(delivered.run_id.to_string())
    .bind(task.to_string())
    .bind(delivered.attempt_id.map(|attempt| attempt.to_string()))
    .bind(json(&delivered.repos)?)
    .bind(json(&delivered.checks)?)
    .bind(delivered.is_empty_diff)
    .bind(claims_passed)
    .bind(now)
    .bind((!is_checked).then_some(now))
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(is_checked)
}

/// The last run of a task: what its last report of done came to.
#[derive(Clone, Debug)]
pub struct LastRun {
    pub repos: Vec<CheckedRepo>,
    pub is_empty_diff: Option<bool>,
    pub claims_passed: bool,
    pub receipts: Vec<Receipt>,
}

#[derive(FromRow)]
struct RunRow {
    run_id: String,
    task_id: String,
    title: String,
    handle: String,
    attempt_id: Option<String>,
    repos: String,
    checks: String,
    is_empty_diff: Option<bool>,
    claims_passed: bool,
    verdict: Option<String>,
}

const COLUMNS: &str =
    "SELECT r.run_id, r.task_id, t.title, t.handle, r.attempt_id, r.repos, r.checks,
    r.is_empty_diff, r.claims_passed, r.verdict
    FROM check_runs r JOIN tasks t ON t.task_id = r.task_id ";

impl RunRow {
    async fn run(self, reading: Writing<'_>) -> Result<CheckRun, Refusal> {
        Ok(CheckRun {
            run_id: codec::id(&self.run_id)?,
            task_id: codec::id(&self.task_id)?,
            task_handle: self.handle,
            task_title: self.title,
            attempt_id: codec::optional_id(self.attempt_id.as_deref())?,
            repos: parse(&self.repos)?,
            checks: parse(&self.checks)?,
            claims_passed: self.claims_passed,
            receipts: receipts(reading, &self.run_id).await?,
            verdict: self.verdict.map(codec::enumerated).transpose()?,
        })
    }
}

#[derive(FromRow)]
struct ReceiptRow {
    name: String,
    command: String,
    outcome: String,
    reason: Option<String>,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    duration_ms: i64,
    log: Option<String>,
    ended_at: i64,
}

impl ReceiptRow {
    fn receipt(self) -> Result<Receipt, Refusal> {
        Ok(Receipt {
            name: self.name,
            command: self.command,
            outcome: codec::enumerated(self.outcome)?,
            reason: self.reason,
            exit_code: self.exit_code,
            exit_signal: self.exit_signal,
            duration_ms: u64::try_from(self.duration_ms).unwrap_or_default(),
            log: self.log,
            at: Timestamp::from_millis(self.ended_at),
        })
    }
}

/// In the order of the checks, which is that of their names.
async fn receipts(reading: Writing<'_>, run: &str) -> Result<Vec<Receipt>, Refusal> {
    let rows: Vec<ReceiptRow> = sqlx::query_as(
        "SELECT name, command, outcome, reason, exit_code, exit_signal, duration_ms, log, ended_at
         FROM receipts WHERE run_id = ?1 ORDER BY name",
    )
    .bind(run)
    .fetch_all(reading)
    .await
    .map_err(fault)?;
    rows.into_iter().map(ReceiptRow::receipt).collect()
}

impl Store {
    /// The task that a worker means, if a report that it is done would be one of work
    /// that has changed something. Whether it may report that is not looked at.
    pub async fn to_be_checked(
        &self,
        worker: &Worker,
        name: &str,
    ) -> Result<Option<TaskId>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let task = scope::task(&mut reading, worker, name).await?;
        let is_work = matches!(task.kind, TaskKind::Work | TaskKind::Investigation);
        let is_open = closed(task.status, task.standing).is_none();
        Ok((is_work && is_open).then_some(task.task_id))
    }

    pub(in crate::store) async fn load_open_checks(&self) -> Result<Vec<CheckRun>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let select = format!("{COLUMNS} WHERE r.closed_at IS NULL ORDER BY r.run_id");
        let rows: Vec<RunRow> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .fetch_all(&mut *reading)
            .await
            .map_err(fault)?;
        let mut runs = Vec::with_capacity(rows.len());
        for row in rows {
            runs.push(row.run(&mut reading).await?);
        }
        Ok(runs)
    }

    pub(in crate::store) async fn insert_receipt(
        &self,
        run: CheckRunId,
        receipt: &Receipt,
    ) -> Result<(), Refusal> {
        let mut writing = self.writing_patiently().await?;
        sqlx::query(
            "INSERT OR IGNORE INTO receipts (run_id, name, command, outcome, reason, exit_code,
                                             exit_signal, duration_ms, log, ended_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )
        .bind(run.to_string())
        .bind(&receipt.name)
        .bind(&receipt.command)
        .bind(codec::word(&receipt.outcome))
        .bind(&receipt.reason)
        .bind(receipt.exit_code)
        .bind(receipt.exit_signal)
        .bind(i64::try_from(receipt.duration_ms).unwrap_or(i64::MAX))
        .bind(&receipt.log)
        .bind(receipt.at.millis())
        .execute(&mut *writing)
        .await
        .map_err(fault)?;
        commit(writing, "receipt").await
    }

    pub(in crate::store) async fn conclude_run(
        &self,
        run: CheckRunId,
    ) -> Result<CheckVerdict, Refusal> {
        let mut writing = self.writing_patiently().await?;
        let select = format!("{COLUMNS} WHERE r.run_id = ?1");
        let row: RunRow = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(run.to_string())
            .fetch_one(&mut *writing)
            .await
            .map_err(fault)?;
        let run = row.run(&mut writing).await?;
        if let Some(verdict) = run.verdict {
            return Ok(verdict);
        }
        let verdict = match (stands(&mut writing, &run).await?, all_passed(&run.receipts)) {
            (false, _) => CheckVerdict::Overruled,
            (true, true) => CheckVerdict::Verified,
            (true, false) => CheckVerdict::Rework,
        };
        match verdict {
            CheckVerdict::Verified => {
                let now = becomes(TaskStatus::Done, Standing::Verified);
                standing::set(&mut writing, run.task_id, now, None, None).await?;
                cascade::of_done(&mut writing, run.task_id, &run.task_handle).await?;
            }
            CheckVerdict::Rework => {
                let now = becomes(TaskStatus::Todo, Standing::Rework);
                let failed = run.receipts.iter().filter(|it| it.outcome != CheckOutcome::Passed);
                let why: Vec<String> = failed.map(ToString::to_string).collect();
                let why = format!("Reported as done: {}.", why.join("; "));
                standing::set(&mut writing, run.task_id, now, Some(&why), None).await?;
                hand_back(&mut writing, &run).await?;
            }
            CheckVerdict::Overruled => {}
        }
        sqlx::query("UPDATE check_runs SET verdict = ?2 WHERE run_id = ?1")
            .bind(run.run_id.to_string())
            .bind(codec::word(&verdict))
            .execute(&mut *writing)
            .await
            .map_err(fault)?;
        commit(writing, "concluded").await?;
        Ok(verdict)
    }

    pub(in crate::store) async fn close_run(&self, run: CheckRunId) -> Result<(), Refusal> {
        let mut writing = self.writing_patiently().await?;
        sqlx::query("UPDATE check_runs SET closed_at = ?2 WHERE run_id = ?1")
            .bind(run.to_string())
            .bind(Timestamp::now().millis())
            .execute(&mut *writing)
            .await
            .map_err(fault)?;
        commit(writing, "checked").await
    }

    /// What the last report that a task is done came to, if there was one.
    pub async fn last_run(&self, task: TaskId) -> Result<Option<LastRun>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let select = format!("{COLUMNS} WHERE r.task_id = ?1 ORDER BY r.run_id DESC LIMIT 1");
        let row: Option<RunRow> = sqlx::query_as(sqlx::AssertSqlSafe(select))
            .bind(task.to_string())
            .fetch_optional(&mut *reading)
            .await
            .map_err(fault)?;
        let Some(row) = row else { return Ok(None) };
        let is_empty_diff = row.is_empty_diff;
        let CheckRun { repos, claims_passed, receipts, .. } = row.run(&mut reading).await?;
        Ok(Some(LastRun { repos, is_empty_diff, claims_passed, receipts }))
    }
}

/// Whether the task is as its last report left it, and this run is that report's.
async fn stands(writing: Writing<'_>, run: &CheckRun) -> Result<bool, Refusal> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE task_id = ?1 AND deleted_at IS NULL
                        AND status = ?3 AND standing = ?4)
            AND NOT EXISTS (SELECT 1 FROM check_runs WHERE task_id = ?1 AND run_id > ?2)",
    )
    .bind(run.task_id.to_string())
    .bind(run.run_id.to_string())
    .bind(codec::word(&TaskStatus::InReview))
    .bind(codec::word(&Standing::Reported))
    .fetch_one(writing)
    .await
    .map_err(fault)
}

fn becomes(status: TaskStatus, standing: Standing) -> Becomes {
    Becomes { status, standing: Some(standing), is_let_go: false }
}

/// Whoever reported it has it in hand again, as long as it does anything: it is told.
async fn hand_back(writing: Writing<'_>, run: &CheckRun) -> Result<(), Refusal> {
    let Some(attempt) = run.attempt_id else { return Ok(()) };
    sqlx::query(
        "INSERT OR REPLACE INTO leases (task_id, agent, attempt_id, taken_at)
         VALUES (?1, ?2, ?2, ?3)",
    )
    .bind(run.task_id.to_string())
    .bind(attempt.to_string())
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await
    .map_err(fault)?;
    Ok(())
}

fn json(value: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(value).map_err(|error| Refusal::internal(error.to_string()))
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    serde_json::from_str(text)
        .map_err(|error| Refusal::internal(format!("a check run can't be read: {error}")))
}

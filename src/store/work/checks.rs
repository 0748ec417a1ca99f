//! Check runs: planned with the report that is to be checked, their receipts, and
//! what they make of the task.

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{CheckRunId, TaskId};
use provost_actors::journal::checks::{
    CheckOutcome, CheckRun, CheckVerdict, CheckedRepo, Delivered, Receipt, all_passed,
};
use provost_actors::journal::{Checks, Standing, TaskStatus};
use provost_actors::refusal::Refusal;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{cascade, scope, task_state};
use crate::store::codec::{Columns, Text};
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing};
use crate::work::report::{Becomes, closed};
use crate::work::{TaskKind, Worker};

/// Writes down what is reported done, within the report's transaction. Whether there
/// is something to be checked: then the task is `reported` until it has been.
pub async fn plan(
    writing: Writing<'_>,
    task: TaskId,
    delivered: &Delivered,
    claims_passed: bool,
) -> Result<bool> {
    let now = Timestamp::now().millis();
    let is_checked = !delivered.checks.is_empty();
    sqlx::query(
        "INSERT INTO check_runs (run_id, task_id, attempt_id, repos, checks, is_empty_diff,
                                 claims_passed, planned_at, closed_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .bind(Text(delivered.run_id))
    .bind(Text(task))
    .bind(delivered.attempt_id.map(Text))
    .bind(serde_json::to_string(&delivered.repos)?)
    .bind(serde_json::to_string(&delivered.checks)?)
    .bind(delivered.is_empty_diff)
    .bind(claims_passed)
    .bind(now)
    .bind((!is_checked).then_some(now))
    .execute(writing)
    .await?;
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

/// The runs for a condition.
macro_rules! runs {
    ($which:literal) => {
        concat!(
            "SELECT r.*, t.title, t.handle FROM check_runs r JOIN tasks t ON t.task_id = r.task_id
             WHERE ",
            $which
        )
    };
}

/// A run from a row of [`runs`], without its receipts.
fn run(row: &SqliteRow) -> sqlx::Result<CheckRun> {
    Ok(CheckRun {
        run_id: row.text("run_id")?,
        task_id: row.text("task_id")?,
        task_handle: row.try_get("handle")?,
        task_title: row.try_get("title")?,
        attempt_id: row.maybe_text("attempt_id")?,
        repos: row.json("repos")?,
        checks: row.json("checks")?,
        claims_passed: row.try_get("claims_passed")?,
        receipts: Vec::new(),
        verdict: row.maybe_text("verdict")?,
    })
}

/// In the order of the checks, which is that of their names.
async fn receipts(reading: Writing<'_>, run: CheckRunId) -> Result<Vec<Receipt>> {
    let receipt = |row: SqliteRow| {
        Ok(Receipt {
            name: row.try_get("name")?,
            command: row.try_get("command")?,
            outcome: row.text("outcome")?,
            reason: row.try_get("reason")?,
            exit_code: row.try_get("exit_code")?,
            exit_signal: row.try_get("exit_signal")?,
            duration_ms: row.try_get::<i64, _>("duration_ms")?.unsigned_abs(),
            log: row.try_get("log")?,
            at: row.at("ended_at")?,
        })
    };
    Ok(sqlx::query("SELECT * FROM receipts WHERE run_id = ?1 ORDER BY name")
        .bind(Text(run))
        .try_map(receipt)
        .fetch_all(reading)
        .await?)
}

impl Store {
    /// The task that a worker means, if a report that it is done would be one of work
    /// that has changed something. Whether it may report that is not looked at.
    pub async fn to_be_checked(
        &self,
        worker: &Worker,
        name: &str,
    ) -> Result<Option<TaskId>, Refusal> {
        self.read(async |reading| {
            let task = scope::task(reading, worker, name).await?;
            let is_work = matches!(task.kind, TaskKind::Work | TaskKind::Investigation);
            let is_open = closed(task.status, task.standing).is_none();
            Ok((is_work && is_open).then_some(task.task_id))
        })
        .await
    }

    /// What the last report that a task is done led to, if there was one.
    pub async fn last_run(&self, task: TaskId) -> Result<Option<LastRun>, Refusal> {
        let last = |row: SqliteRow| Ok((run(&row)?, row.try_get("is_empty_diff")?));
        self.read(async |reading| {
            let found = sqlx::query(runs!("r.task_id = ?1 ORDER BY r.run_id DESC LIMIT 1"))
                .bind(Text(task))
                .try_map(last)
                .fetch_optional(&mut *reading)
                .await?;
            let Some((run, is_empty_diff)) = found else { return Ok(None) };
            let receipts = receipts(reading, run.run_id).await?;
            let CheckRun { repos, claims_passed, .. } = run;
            Ok(Some(LastRun { repos, is_empty_diff, claims_passed, receipts }))
        })
        .await
    }
}

/// A run is planned with its report, then has a receipt for each check, is concluded, and is
/// closed once its attempt knows. A daemon that dies in between goes on from the rows.
#[async_trait]
impl Checks for Store {
    async fn open_checks(&self) -> Result<Vec<CheckRun>, Refusal> {
        self.read(async |reading| {
            let mut open = sqlx::query(runs!("r.closed_at IS NULL ORDER BY r.run_id"))
                .try_map(|row| run(&row))
                .fetch_all(&mut *reading)
                .await?;
            for run in &mut open {
                run.receipts = receipts(reading, run.run_id).await?;
            }
            Ok(open)
        })
        .await
    }

    async fn keep_receipt(&self, run: CheckRunId, receipt: &Receipt) -> Result<(), Refusal> {
        self.write(Patience::Owner, "receipt", async |writing| {
            sqlx::query(
                "INSERT OR IGNORE INTO receipts (run_id, name, command, outcome, reason, exit_code,
                                                 exit_signal, duration_ms, log, ended_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )
            .bind(Text(run))
            .bind(&receipt.name)
            .bind(&receipt.command)
            .bind(Text(receipt.outcome))
            .bind(&receipt.reason)
            .bind(receipt.exit_code)
            .bind(receipt.exit_signal)
            .bind(i64::try_from(receipt.duration_ms).unwrap_or(i64::MAX))
            .bind(&receipt.log)
            .bind(receipt.at.millis())
            .execute(writing)
            .await?;
            Ok(())
        })
        .await
    }

    async fn conclude_checks(&self, id: CheckRunId) -> Result<CheckVerdict, Refusal> {
        self.write(Patience::Owner, "concluded", async |writing| {
            let mut run = sqlx::query(runs!("r.run_id = ?1"))
                .bind(Text(id))
                .try_map(|row| run(&row))
                .fetch_one(&mut *writing)
                .await?;
            if let Some(verdict) = run.verdict {
                return Ok(verdict);
            }
            run.receipts = receipts(writing, id).await?;
            let verdict = conclude(writing, &run).await?;
            sqlx::query("UPDATE check_runs SET verdict = ?2 WHERE run_id = ?1")
                .bind(Text(id))
                .bind(Text(verdict))
                .execute(writing)
                .await?;
            Ok(verdict)
        })
        .await
    }

    async fn close_checks(&self, run: CheckRunId) -> Result<(), Refusal> {
        self.write(Patience::Owner, "checked", async |writing| {
            sqlx::query("UPDATE check_runs SET closed_at = ?2 WHERE run_id = ?1")
                .bind(Text(run))
                .bind(Timestamp::now().millis())
                .execute(writing)
                .await?;
            Ok(())
        })
        .await
    }
}

/// Decides a run by its receipts, and changes its task accordingly.
async fn conclude(writing: Writing<'_>, run: &CheckRun) -> Result<CheckVerdict> {
    if !stands(writing, run).await? {
        return Ok(CheckVerdict::Overruled);
    }
    if all_passed(&run.receipts) {
        let now = becomes(TaskStatus::Done, Standing::Verified);
        task_state::set(writing, run.task_id, now, None, None).await?;
        cascade::of_done(writing, run.task_id, &run.task_handle).await?;
        return Ok(CheckVerdict::Verified);
    }
    let now = becomes(TaskStatus::Todo, Standing::Rework);
    let failed = run.receipts.iter().filter(|it| it.outcome != CheckOutcome::Passed);
    let why: Vec<String> = failed.map(ToString::to_string).collect();
    let why = format!("Reported as done: {}.", why.join("; "));
    task_state::set(writing, run.task_id, now, Some(&why), None).await?;
    hand_back(writing, run).await?;
    Ok(CheckVerdict::Rework)
}

/// Whether the task is as its last report left it, and this run is that report's.
async fn stands(writing: Writing<'_>, run: &CheckRun) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE task_id = ?1 AND deleted_at IS NULL
                        AND status = ?3 AND standing = ?4)
            AND NOT EXISTS (SELECT 1 FROM check_runs WHERE task_id = ?1 AND run_id > ?2)",
    )
    .bind(Text(run.task_id))
    .bind(Text(run.run_id))
    .bind(Text(TaskStatus::InReview))
    .bind(Text(Standing::Reported))
    .fetch_one(writing)
    .await?)
}

fn becomes(status: TaskStatus, standing: Standing) -> Becomes {
    Becomes { status, standing: Some(standing), is_let_go: false }
}

/// The attempt that reported the task holds it again, as long as it is active: its agent is
/// sent the failures, and is the first to mend them.
async fn hand_back(writing: Writing<'_>, run: &CheckRun) -> Result<()> {
    let Some(attempt) = run.attempt_id else { return Ok(()) };
    sqlx::query(
        "INSERT OR REPLACE INTO leases (task_id, agent, attempt_id, taken_at)
         VALUES (?1, ?2, ?2, ?3)",
    )
    .bind(Text(run.task_id))
    .bind(Text(attempt))
    .bind(Timestamp::now().millis())
    .execute(writing)
    .await?;
    Ok(())
}

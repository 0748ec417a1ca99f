//! Check runs: planned with the report or the finish that they check, then their receipts, then what their
//! verdict makes of the task.
//!
//! ```text
//!  planned ─a receipt for each check─▶ concluded (verdict) ─the attempt knows it─▶ closed
//!     │                                   └─Verified: the task is done; Rework: it goes back to the worker;
//!     │                                     Overruled: the task has changed since, nothing happens
//!     └─no checks─▶ closed at once
//! ```

use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::{AttemptId, CheckRunId, FinishId, TaskId};
use provost_actors::journal::checks::{
    CheckOutcome, CheckRun, CheckVerdict, Receipt, Submission, all_passed,
};
use provost_actors::journal::{Checks, ReviewState, TaskStatus, lost};
use serde_json::json;

use super::{scope, task_state};
use crate::store::{Db, Refusal, Result, RetryBudget, Sql, Store, now};
use crate::work::report::{Becomes, closed};
use crate::work::{TaskKind, Worker};

/// What a run of checks belongs to.
pub struct NewRun {
    pub task: TaskId,
    /// The finish whose result is checked; `None`: a report that the task is done.
    pub finish: Option<FinishId>,
    /// The report says that the tests have passed.
    pub claims_passed: bool,
}

/// Writes the row of a run, in the transaction of the report or finish that causes it. `true`: there are
/// checks, so a reported task stays `reported` until they have run.
pub async fn plan(db: Db<'_>, of: &NewRun, submission: &Submission) -> Result<bool> {
    let now = now();
    let is_checked = !submission.checks.is_empty();
    let row = json!({
        "run_id": submission.run_id, "task_id": of.task, "attempt_id": submission.attempt_id,
        "repos": submission.repos, "checks": submission.checks, "finish_id": of.finish,
        "host": submission.host,
        "is_empty_diff": submission.is_empty_diff, "claims_passed": of.claims_passed,
        "planned_at": now, "closed_at": (!is_checked).then_some(now),
    });
    // A finish that is continued may plan the same run a second time.
    db.insert_new("INTO check_runs", row).await?;
    Ok(is_checked)
}

macro_rules! runs {
    ($which:literal) => {
        concat!(
            "SELECT r.*, t.title AS task_title, t.handle AS task_handle,
                    (SELECT json_group_array(json_object(
                         'name', name, 'command', command, 'outcome', outcome, 'reason', reason,
                         'exit_code', exit_code, 'exit_signal', exit_signal,
                         'duration_ms', duration_ms, 'log', log, 'at', ended_at,
                         'sandbox', json(sandbox)) ORDER BY name)
                     FROM receipts WHERE run_id = r.run_id) AS receipts
             FROM check_runs r JOIN tasks t ON t.task_id = r.task_id WHERE ",
            $which
        )
    };
}

impl Store {
    /// The task that a worker's report names, if a report of `done` on it would have checks: work or an
    /// investigation that is still open. Whether the worker may report on it is checked later.
    pub async fn to_be_checked(
        &self,
        worker: &Worker,
        name: &str,
    ) -> Result<Option<TaskId>, Refusal> {
        self.read(async |db| {
            let task = scope::task(db, worker, name).await?;
            let is_work = matches!(task.kind, TaskKind::Work | TaskKind::Investigation);
            let is_open = closed(task.status, task.review).is_none();
            Ok((is_work && is_open).then_some(task.task_id))
        })
        .await
    }

    /// The run of the last report that the task is done; `None`: there was none.
    pub async fn last_run(&self, task: TaskId) -> Result<Option<CheckRun>, Refusal> {
        let sql = runs!("r.task_id = $1 AND r.finish_id IS NULL ORDER BY r.run_id DESC LIMIT 1");
        self.read(async |db| db.find(sql, (task,)).await).await
    }
}

/// A daemon that dies between two of these steps continues from the rows.
#[async_trait]
impl Checks for Store {
    async fn open_checks(&self) -> Result<Vec<CheckRun>, Refusal> {
        let sql = runs!("r.closed_at IS NULL AND r.host = $1 ORDER BY r.run_id");
        self.read(async |db| db.all(sql, (&self.host,)).await).await
    }

    async fn keep_receipt(&self, run: CheckRunId, receipt: &Receipt) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "receipt", async |db| insert_receipt(db, run, receipt).await)
            .await
    }

    async fn conclude_checks(&self, id: CheckRunId) -> Result<CheckVerdict, Refusal> {
        self.write(RetryBudget::Long, "concluded", async |db| {
            let run: CheckRun = db.one(runs!("r.run_id = $1"), (id,)).await?;
            if let Some(verdict) = run.verdict {
                return Ok(verdict);
            }
            let verdict = conclude(db, &run).await?;
            let sql = "UPDATE check_runs SET verdict = $2 WHERE run_id = $1";
            db.run(sql, (id, verdict)).await?;
            Ok(verdict)
        })
        .await
    }

    async fn close_checks(&self, run: CheckRunId) -> Result<(), Refusal> {
        self.write(RetryBudget::Long, "checked", async |db| {
            let sql = "UPDATE check_runs SET closed_at = $2 WHERE run_id = $1";
            db.run(sql, (run, now())).await?;
            Ok(())
        })
        .await
    }
}

/// Writes a receipt; a check that has one already keeps it.
async fn insert_receipt(db: Db<'_>, run: CheckRunId, receipt: &Receipt) -> Result<()> {
    let row = json!({
        "run_id": run, "name": receipt.name, "command": receipt.command,
        "outcome": receipt.outcome, "reason": receipt.reason,
        "exit_code": receipt.exit_code, "exit_signal": receipt.exit_signal,
        "duration_ms": receipt.duration_ms, "log": receipt.log,
        "ended_at": receipt.at.millis(), "sandbox": receipt.sandbox,
    });
    db.insert_new("INTO receipts", row).await.map(drop)
}

/// Ends the runs of a lost host: each check without a receipt gets one that says that it could not run. Runs
/// of finishes wait for the host, as their finishes do.
pub async fn give_up(db: Db<'_>, host: &str) -> Result<()> {
    let open = runs!("r.closed_at IS NULL AND r.finish_id IS NULL AND r.host = $1");
    let open: Vec<CheckRun> = db.all(open, (host,)).await?;
    for mut run in open {
        let id = run.run_id;
        for check in std::mem::take(&mut run.checks) {
            let receipt = Receipt {
                name: check.name,
                command: check.command.to_string(),
                reason: Some(lost(host)),
                at: Timestamp::now(),
                ..Receipt::default()
            };
            insert_receipt(db, id, &receipt).await?;
        }
        let run: CheckRun = db.one(runs!("r.run_id = $1"), (id,)).await?;
        let verdict = match run.verdict {
            Some(verdict) => verdict,
            None => conclude(db, &run).await?,
        };
        let sql = "UPDATE check_runs SET verdict = $2, closed_at = $3 WHERE run_id = $1";
        db.run(sql, (id, verdict, now())).await?;
    }
    Ok(())
}

/// A run by its id.
pub async fn run(db: Db<'_>, id: CheckRunId) -> Result<Option<CheckRun>> {
    db.find(runs!("r.run_id = $1"), (id,)).await
}

/// The newest run of an attempt that has a verdict.
pub async fn last_of(db: Db<'_>, attempt: AttemptId) -> Result<Option<CheckRun>> {
    let sql = runs!("r.attempt_id = $1 AND r.verdict IS NOT NULL ORDER BY r.run_id DESC LIMIT 1");
    db.find(sql, (attempt,)).await
}

/// Finds the verdict of a run, and changes the task by it; a run of a finish changes no task.
async fn conclude(db: Db<'_>, run: &CheckRun) -> Result<CheckVerdict> {
    if run.finish_id.is_some() {
        let is_good = all_passed(&run.receipts);
        return Ok(if is_good { CheckVerdict::Verified } else { CheckVerdict::Rework });
    }
    if !stands(db, run).await? {
        return Ok(CheckVerdict::Overruled);
    }
    if all_passed(&run.receipts) {
        let now = becomes(TaskStatus::Done, ReviewState::Verified);
        task_state::set(db, run.task_id, now, None, None).await?;
        task_state::after_done(db, run.task_id, &run.task_handle).await?;
        return Ok(CheckVerdict::Verified);
    }
    let now = becomes(TaskStatus::Todo, ReviewState::Rework);
    let failed = run.receipts.iter().filter(|it| it.outcome != CheckOutcome::Passed);
    let why: Vec<String> = failed.map(ToString::to_string).collect();
    let why = format!("Reported as done: {}.", why.join("; "));
    task_state::set(db, run.task_id, now, Some(&why), None).await?;
    hand_back(db, run).await?;
    Ok(CheckVerdict::Rework)
}

/// Whether the task is still as its last report left it, and that report belongs to this run.
async fn stands(db: Db<'_>, run: &CheckRun) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM tasks WHERE task_id = $1 AND deleted_at IS NULL
                        AND status = $3 AND standing = $4)
            AND NOT EXISTS (SELECT 1 FROM check_runs WHERE task_id = $1 AND run_id > $2
                              AND finish_id IS NULL)";
    db.one(sql, (run.task_id, run.run_id, TaskStatus::InReview, ReviewState::Reported)).await
}

fn becomes(status: TaskStatus, review: ReviewState) -> Becomes {
    Becomes { status, review: Some(review), is_let_go: false }
}

/// Gives the task back to the attempt that reported it, as long as that attempt is active: its agent gets the
/// failures and is the first to fix them.
async fn hand_back(db: Db<'_>, run: &CheckRun) -> Result<()> {
    let Some(attempt) = run.attempt_id else { return Ok(()) };
    let row = json!({
        "task_id": run.task_id, "agent": attempt, "attempt_id": attempt,
        "taken_at": now(), "expires_at": null,
    });
    db.replace("leases", "task_id", row).await?;
    Ok(())
}

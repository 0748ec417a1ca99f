//! What a report makes of its task. All tools that report on tasks go through this file.

use provost_actors::ids::{ReportId, TaskId};
use provost_actors::journal::checks::Submission;

use super::checks::NewRun;
use super::scope::{self, WorkTask};
use super::{WorkerCall, checks, reports, task_state, tickets, verification};
use crate::api::worker::done::VerificationTask;
use crate::api::worker::status::Cascaded;
use crate::store::{Db, Result, Sql, dependencies, word};
use crate::work::report::{Said, TaskReport, becomes, closed};
use crate::work::{TaskKind, Worker};

/// The consequences of a report.
pub struct ReportOutcome {
    pub task: WorkTask,
    pub report: ReportId,
    /// The project's checks run, and their verdict decides about the task.
    pub checks_run: bool,
    pub cascaded: Cascaded,
    pub verification: Option<VerificationTask>,
    pub warnings: Vec<String>,
}

/// Records a report with all its consequences. Part of the report's transaction: a worker that gets no answer
/// calls again, and finds either everything done or nothing.
pub async fn take<C: WorkerCall>(
    db: Db<'_>,
    worker: &Worker,
    call: &C,
    given: TaskReport<'_>,
    submission: Option<&Submission>,
) -> Result<ReportOutcome> {
    let task = scope::reportable_task(db, worker, given.task).await?;
    if let Some(why) = closed(task.status, task.review) {
        return Err(task_state::taken_already(&task, why).into());
    }
    let is_done = given.said == Said::Done;
    let mut warnings = given.contradictions.clone();
    if is_done {
        warnings.extend(odd_about_done(db, &task, submission).await?);
    }
    let (of, status) = (Some(task.task_id), Some(word(&given.status)));
    let report = reports::record(db, worker, call, of, status, &warnings).await?;
    // A verification changes no files, so nothing could be checked.
    let checks_run = match submission {
        Some(submission) if is_done && task.kind != TaskKind::Verification => {
            let task = task.task_id;
            let of = NewRun { task, finish: None, claims_passed: given.claims_passed };
            checks::plan(db, &of, submission).await?
        }
        _ => false,
    };
    let becomes = becomes(given.said, checks_run);
    task_state::set(db, task.task_id, becomes, given.reason, given.progress).await?;
    let mut cascaded = Cascaded::default();
    if is_done && !checks_run {
        cascaded = task_state::after_done(db, task.task_id, &task.handle).await?;
    }
    let mut verification = None;
    if is_done && task.kind == TaskKind::Work {
        let branch = branch(db, worker, task.task_id).await?;
        let branch = branch.as_deref();
        verification = verification::order(db, worker, &task, &given, branch, checks_run).await?;
    }
    Ok(ReportOutcome { task, report, checks_run, cascaded, verification, warnings })
}

/// The branch with the work on a task: that of the reporting attempt, or else of the task's newest attempt.
async fn branch(db: Db<'_>, worker: &Worker, task: TaskId) -> Result<Option<String>> {
    let sql = "SELECT branch FROM attempts WHERE attempt_id = $1 OR task_id = $2
         ORDER BY attempt_id IS NOT DISTINCT FROM $1 DESC, attempt_id DESC LIMIT 1";
    db.find(sql, (worker.attempt_id, task)).await
}

/// Warnings about a report of done: nothing was changed, or tickets or other tasks still block the task.
async fn odd_about_done(
    db: Db<'_>,
    task: &WorkTask,
    submission: Option<&Submission>,
) -> Result<Vec<String>> {
    let mut odd = Vec::new();
    if submission.is_some_and(|it| it.is_empty_diff == Some(true)) {
        odd.push("The task is reported as done, and nothing was changed for it.".to_owned());
    }
    if task.kind == TaskKind::Verification {
        let handle = &task.handle;
        odd.push(format!(
            "This report does not say what {handle} found; reportVerificationResult does."
        ));
    }
    let blockers = tickets::blocking(db, task.task_id).await?;
    if !blockers.is_empty() {
        let (handle, blockers) = (&task.handle, blockers.join(", "));
        odd.push(format!("{handle} is reported as done while {blockers} stood in its way."));
    }
    let unmet = dependencies::unmet(db, task.task_id).await?;
    if !unmet.is_empty() {
        let unmet: Vec<String> = unmet.into_iter().map(|task| task.handle).collect();
        let (handle, unmet) = (&task.handle, unmet.join(", "));
        odd.push(format!("{handle} is reported as done before what it waits for: {unmet}."));
    }
    Ok(odd)
}

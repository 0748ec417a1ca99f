//! What a report makes of its task: the one path for all tools that report on tasks.

use provost_actors::ids::{ReportId, TaskId};
use provost_actors::journal::checks::Delivered;
use serde::Serialize;

use super::reports::{self, Report};
use super::scope::{self, WorkTask};
use super::{cascade, checks, task_state, tickets, verification};
use crate::api::worker::done::VerificationTask;
use crate::api::worker::status::Cascaded;
use crate::store::codec::Text;
use crate::store::{Result, Writing, dependencies};
use crate::work::TaskKind;
use crate::work::Worker;
use crate::work::report::{Said, becomes, closed};
use crate::work::verification::Done;

/// A report in the terms that all tools share.
pub struct Account<'a, T> {
    pub tool: &'static str,
    /// The task as the report names it.
    pub task: &'a str,
    /// The tool's own word for what is said.
    pub word: String,
    pub said: Said,
    /// Why it is not done.
    pub reason: Option<&'a str>,
    /// Percent.
    pub progress: Option<i64>,
    /// What was done.
    pub notes: Option<&'a str>,
    /// The files that it names as changed.
    pub files: Vec<&'a str>,
    /// Acceptance criteria that the report speaks of, by their numbers.
    pub criteria: Vec<(usize, &'a str)>,
    /// Where it contradicts itself.
    pub contradictions: Vec<String>,
    /// It claims that its tests passed.
    pub claims_passed: bool,
    /// The snapshot of what is reported done, if one could be taken.
    pub delivered: Option<&'a Delivered>,
    /// The report as it was given.
    pub body: &'a T,
}

/// What a report brought about.
pub struct Outcome {
    pub task: WorkTask,
    pub report: ReportId,
    /// The checks of the project hold the last word.
    pub checks_run: bool,
    pub cascaded: Cascaded,
    pub verification: Option<VerificationTask>,
    pub warnings: Vec<String>,
}

/// Records a report, with all that follows from it. Part of its transaction: a worker that
/// gets no answer calls again, and finds either everything done or nothing.
pub async fn take<T: Serialize + Sync>(
    writing: Writing<'_>,
    worker: &Worker,
    account: Account<'_, T>,
) -> Result<Outcome> {
    let task = scope::task_in_hand(writing, worker, account.task).await?;
    if let Some(why) = closed(task.status, task.standing) {
        return Err(task_state::taken_already(&task, why).into());
    }
    let mut warnings = account.contradictions;
    if account.said == Said::Done {
        warnings.extend(odd_about_done(writing, &task, account.delivered).await?);
    }
    let report = Report {
        tool: account.tool,
        task: Some(task.task_id),
        status: Some(&account.word),
        body: account.body,
        warnings: &warnings,
    };
    let report = reports::record(writing, worker, report).await?;
    // A verification changes nothing that could be checked.
    let is_checked = account.said == Said::Done && task.kind != TaskKind::Verification;
    let checks_run = match account.delivered {
        Some(delivered) if is_checked => {
            checks::plan(writing, task.task_id, delivered, account.claims_passed).await?
        }
        _ => false,
    };
    let now = becomes(account.said, checks_run);
    task_state::set(writing, task.task_id, now, account.reason, account.progress).await?;
    let mut cascaded = Cascaded::default();
    let mut verification = None;
    if account.said == Said::Done {
        if !checks_run {
            cascaded = cascade::of_done(writing, task.task_id, &task.handle).await?;
        }
        if task.kind == TaskKind::Work {
            let done = Done {
                task: &task.handle,
                title: &task.title,
                branch: branch(writing, worker, task.task_id).await?,
                files: &account.files,
                notes: account.notes,
                criteria: &account.criteria,
            };
            verification = verification::order(writing, worker, &task, &done, checks_run).await?;
        }
    }
    Ok(Outcome { task, report, checks_run, cascaded, verification, warnings })
}

/// Where the work on a task is: the branch of the attempt that reports, or else of the
/// task's newest.
async fn branch(reading: Writing<'_>, worker: &Worker, task: TaskId) -> Result<Option<String>> {
    Ok(sqlx::query_scalar(
        "SELECT branch FROM attempts WHERE attempt_id = ?1 OR task_id = ?2
         ORDER BY attempt_id IS ?1 DESC, attempt_id DESC LIMIT 1",
    )
    .bind(worker.attempt_id.map(Text))
    .bind(Text(task))
    .fetch_optional(reading)
    .await?)
}

/// Warnings about a report of done: nothing was changed, or the task depends on others that
/// are not done.
async fn odd_about_done(
    writing: Writing<'_>,
    task: &WorkTask,
    delivered: Option<&Delivered>,
) -> Result<Vec<String>> {
    let mut odd = Vec::new();
    if delivered.is_some_and(|it| it.is_empty_diff == Some(true)) {
        odd.push("The task is reported as done, and nothing was changed for it.".to_owned());
    }
    if task.kind == TaskKind::Verification {
        let handle = &task.handle;
        odd.push(format!("What {handle} found is not told; reportVerificationResult tells it."));
    }
    let blockers = tickets::blocking(writing, task.task_id).await?;
    if !blockers.is_empty() {
        let (handle, blockers) = (&task.handle, blockers.join(", "));
        odd.push(format!("{handle} is reported as done while {blockers} stood in its way."));
    }
    let unmet = dependencies::unmet(writing, task.task_id).await?;
    if !unmet.is_empty() {
        let unmet: Vec<String> = unmet.into_iter().map(|task| task.handle).collect();
        let (handle, unmet) = (&task.handle, unmet.join(", "));
        odd.push(format!("{handle} is reported as done before what it waits for: {unmet}."));
    }
    Ok(odd)
}

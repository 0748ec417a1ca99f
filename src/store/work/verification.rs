//! Verifications: ordered when a task is reported as done, and what their results make of the task.

use std::fmt::Write;

use async_trait::async_trait;
use provost_actors::ids::ReportId;
use provost_actors::journal::TaskStatus;

use super::notes::{self, Note};
use super::scope::{self, WorkTask};
use super::task_state::{self, taken_already};
use super::tickets::{self, NewTicket};
use super::{Submission, WorkerCall, deliveries, reports};
use crate::api::worker::done::VerificationTask;
use crate::api::worker::ticket::Urgency;
use crate::api::worker::verification::{
    FollowUpCreated, IssueFound, ReportVerificationResultInput, ReportVerificationResultOutput,
    VerificationStatus, VerificationUpdate, VerificationVerdict,
};
use crate::store::tasks::{self, Draft};
use crate::store::{Code, Db, Refusal, Result, Sql, now, word};
use crate::work::report::{Becomes, TaskReport, closed};
use crate::work::verification::{brief, why};
use crate::work::{ReviewState, TaskKind, Worker};

/// Puts the verification of a task on the board. `None`: one is there already, and gets the newest report as
/// its description. It depends on the task, so that the task's checks run first.
pub async fn order(
    db: Db<'_>,
    worker: &Worker,
    task: &WorkTask,
    given: &TaskReport<'_>,
    branch: Option<&str>,
    checks_run: bool,
) -> Result<Option<VerificationTask>> {
    let description = given.description(&task.handle, &task.title, branch);
    let sql = "UPDATE tasks SET description = $2, updated_at = $3
         WHERE about = $1 AND kind = 'verification'
           AND status NOT IN ('done', 'cancelled') AND deleted_at IS NULL";
    let waiting = db.run(sql, (task.task_id, &description, now())).await?;
    if waiting > 0 {
        return Ok(None);
    }
    let brief = brief(task.brief.as_deref(), &given.criteria);
    let why = why(&task.title, &brief);
    let title = format!("Verify: {}", task.title);
    let draft = Draft {
        project_id: worker.project_id,
        title: &title,
        description: Some(&description),
        priority: task.priority,
        kind: TaskKind::Verification,
        about: Some(task.task_id),
        reason: Some(&why),
        brief: Some(brief.to_json()),
        depends_on: &[task.task_id],
    };
    let (_, task_id) = tasks::insert(db, &draft).await?;
    let automation_level = if checks_run {
        "semi-automated - the project's checks run first, then an agent looks at it"
    } else {
        "semi-automated - agent will check, human reviews if needed"
    };
    Ok(Some(VerificationTask {
        task_id,
        title,
        why,
        automation_level: automation_level.to_owned(),
    }))
}

#[async_trait]
impl WorkerCall for ReportVerificationResultInput {
    const TOOL: &'static str = "reportVerificationResult";
    type Output = ReportVerificationResultOutput;

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        _: Option<&Submission>,
    ) -> Result<Self::Output> {
        let verification = scope::reportable_task(db, worker, &self.verification_task_id).await?;
        let original = scope::task(db, worker, &self.original_task_id).await?;
        let verdict = self.verdict();
        refuse(db, &verification, &original, verdict).await?;
        let mut warnings = self.contradictions();
        if verdict == VerificationVerdict::Rework {
            warnings.extend(begun_upon(db, &original).await?);
        }
        let (of, status) = (Some(verification.task_id), Some(word(&self.verification_status)));
        let report = reports::record(db, worker, self, of, status, &warnings).await?;
        let over = Becomes { status: TaskStatus::Done, review: None, is_let_go: true };
        task_state::set(db, verification.task_id, over, None, None).await?;
        task_state::after_done(db, verification.task_id, &verification.handle).await?;
        mark(db, &original, verdict, &findings(self)).await?;
        let issues = keep_issues(db, worker, &original, report, self).await?;
        let follow_ups = follow_up(db, worker, &original, self).await?;
        let review_ticket_id = match self.verification_status {
            VerificationStatus::NeedsManualReview => {
                let ticket = NewTicket {
                    title: &format!("Review {}: {}", original.handle, original.title),
                    description: Some(&self.verification.summary),
                    priority: original.priority,
                    ..NewTicket::default()
                };
                Some(tickets::open(db, worker, ticket).await?.1)
            }
            _ => None,
        };
        let message = verdict.says(&original.handle);
        let update = VerificationUpdate::new(&message, issues.len(), follow_ups.len());
        Ok(ReportVerificationResultOutput {
            success: true,
            verification_task_id: verification.handle,
            verification_status: self.verification_status,
            original_task_status: self.original_task_status,
            message,
            issues_found: some(issues),
            follow_up_tasks_created: some(follow_ups),
            original_task_marked: verdict,
            blocker_cleared: verdict != VerificationVerdict::Rework,
            dashboard_update: Some(update),
            review_ticket_id,
            warnings,
            answers: deliveries::deliver_due(db, worker, None).await?,
        })
    }
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// Refuses the call unless it is the result of an open verification of a task that is done. A task that is
/// not done can only get the verdict of rework.
async fn refuse(
    db: Db<'_>,
    verification: &WorkTask,
    original: &WorkTask,
    verdict: VerificationVerdict,
) -> Result<()> {
    let Some(about) = verification.about.filter(|_| verification.kind == TaskKind::Verification)
    else {
        let message = format!("task {} verifies no other", verification.handle);
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint("Call reportTaskDone instead.")
            .detail("path", "verificationTaskId")
            .into());
    };
    if about != original.task_id {
        let handle: String =
            db.one("SELECT handle FROM tasks WHERE task_id = $1", (about,)).await?;
        let message = format!("{} verifies {handle}, not {}", verification.handle, original.handle);
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint(format!(
                "Call reportVerificationResult again with originalTaskId = \"{handle}\"."
            ))
            .detail("path", "originalTaskId")
            .into());
    }
    if let Some(why) = closed(verification.status, verification.review) {
        return Err(taken_already(verification, why).into());
    }
    // A task that is not done yet can only be found to need rework.
    match original.status {
        TaskStatus::Cancelled => Err(taken_already(original, "was cancelled").into()),
        TaskStatus::Done => Ok(()),
        _ if verdict == VerificationVerdict::Rework => Ok(()),
        _ => Err(taken_already(original, "is not done yet, so it can't be verified").into()),
    }
}

/// Warnings about tasks that depend on a task that needs rework, and that have been begun.
async fn begun_upon(db: Db<'_>, original: &WorkTask) -> Result<Vec<String>> {
    let sql = "SELECT t.handle FROM task_dependencies d JOIN tasks t ON t.task_id = d.task_id
         WHERE d.depends_on = $1 AND t.kind = 'work' AND t.deleted_at IS NULL
           AND t.status IN ('inprogress', 'inreview', 'done') ORDER BY t.task_id";
    let begun: Vec<String> = db.all(sql, (original.task_id,)).await?;
    let warn = |handle: String| format!("{handle} builds on {} and was begun.", original.handle);
    Ok(begun.into_iter().map(warn).collect())
}

/// The summary of a verification and its issues, as the reason for rework.
fn findings(input: &ReportVerificationResultInput) -> String {
    let mut text = input.verification.summary.to_string();
    for issue in input.issues() {
        let _ = write!(text, "\n- {}: {}", issue.title, issue.text);
    }
    text
}

/// Gives the verified task the state of the verdict. `Done` changes nothing: the task stays done.
async fn mark(
    db: Db<'_>,
    original: &WorkTask,
    verdict: VerificationVerdict,
    summary: &str,
) -> Result<()> {
    let (status, review) = match verdict {
        VerificationVerdict::Verified => (TaskStatus::Done, ReviewState::Verified),
        VerificationVerdict::Rework => (TaskStatus::Todo, ReviewState::Rework),
        VerificationVerdict::Done => return Ok(()),
    };
    let now = Becomes { status, review: Some(review), is_let_go: true };
    task_state::set(db, original.task_id, now, Some(summary), None).await
}

/// Stores the issues of a verification as notes.
async fn keep_issues(
    db: Db<'_>,
    worker: &Worker,
    original: &WorkTask,
    report: ReportId,
    input: &ReportVerificationResultInput,
) -> Result<Vec<IssueFound>> {
    let severity = if input.verdict() == VerificationVerdict::Rework {
        Urgency::High
    } else {
        Urgency::Medium
    };
    let related_components = reports::files_of(db, original.task_id).await?;
    let mut found = Vec::new();
    for issue in input.issues() {
        let note = Note {
            is_issue: true,
            task: Some(original.task_id),
            text: &format!("{}\n{}", issue.title, issue.text),
            category: Some("verification"),
            severity,
            report: Some(report),
            ..Note::default()
        };
        found.push(IssueFound {
            issue_id: notes::keep(db, worker, &note).await?,
            title: issue.title,
            related_components: related_components.clone(),
            severity,
        });
    }
    Ok(found)
}

/// Puts the suggested actions of a verification on the board.
async fn follow_up(
    db: Db<'_>,
    worker: &Worker,
    original: &WorkTask,
    input: &ReportVerificationResultInput,
) -> Result<Vec<FollowUpCreated>> {
    let mut made = Vec::new();
    for title in input.suggested_actions.iter().flat_map(|actions| actions.iter()) {
        let reason =
            format!("The verification of {}: {}", original.handle, &*input.verification.summary);
        let draft = Draft {
            reason: Some(&reason),
            ..Draft::new(worker.project_id, title, original.priority)
        };
        let (_, task_id) = tasks::insert(db, &draft).await?;
        made.push(FollowUpCreated {
            task_id,
            title: title.to_string(),
            related_to: original.handle.clone(),
            priority: word(&original.priority),
        });
    }
    Ok(made)
}

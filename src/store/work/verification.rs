//! Verifications: ordered when a task is reported as done, and what their results make
//! of it.

use std::fmt::Write;

use provost_actors::ids::ReportId;
use provost_actors::journal::{Key, Once, TaskStatus};
use provost_actors::refusal::{Code, Refusal};

use super::deliveries;
use super::notes::{self, Note};
use super::reports::{self, Report};
use super::scope::{self, WorkTask};
use super::task_state::{self, taken_already};
use super::tickets;
use super::{cascade, progress};
use crate::api::worker::done::VerificationTask;
use crate::api::worker::ticket::{TicketKind, Urgency};
use crate::api::worker::verification::Verdict;
use crate::api::worker::verification::{
    FollowUpCreated, IssueFound, ReportVerificationResultInput, ReportVerificationResultOutput,
    VerificationStatus, VerificationUpdate,
};
use crate::store::codec::Text;
use crate::store::tasks::{self, Draft};
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing, codec};
use crate::work::note::NoteKind;
use crate::work::report::{Becomes, closed};
use crate::work::verification::{Done, brief, why};
use crate::work::{Standing, TaskKind, Worker};

const TOOL: &str = "reportVerificationResult";

/// Puts the verification of a task on the board; one that is there already gets the newest
/// report as its description. It depends on the task, so that the checks run first.
pub async fn order(
    writing: Writing<'_>,
    worker: &Worker,
    task: &WorkTask,
    done: &Done<'_>,
    checks_run: bool,
) -> Result<Option<VerificationTask>> {
    let description = done.description();
    let waiting = sqlx::query(
        "UPDATE tasks SET description = ?2 WHERE about = ?1 AND kind = 'verification'
           AND status NOT IN ('done', 'cancelled') AND deleted_at IS NULL",
    )
    .bind(Text(task.task_id))
    .bind(&description)
    .execute(&mut *writing)
    .await?;
    if waiting.rows_affected() > 0 {
        return Ok(None);
    }
    let brief = brief(task.brief.as_deref(), done.criteria);
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
        brief: Some(&brief.to_json()),
        depends_on: &[task.task_id],
    };
    let (_, task_id) = tasks::insert(writing, &draft).await?;
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

impl Store {
    /// `reportVerificationResult`.
    pub async fn report_verification_result(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &ReportVerificationResultInput,
    ) -> Result<Once<ReportVerificationResultOutput>, Refusal> {
        self.keyed(Patience::Caller, key, TOOL, async |writing| {
            conclude(writing, worker, input).await
        })
        .await
    }
}

async fn conclude(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportVerificationResultInput,
) -> Result<ReportVerificationResultOutput> {
    let verification = scope::task_in_hand(writing, worker, &input.verification_task_id).await?;
    let original = scope::task(writing, worker, &input.original_task_id).await?;
    let verdict = input.verdict();
    refuse(writing, &verification, &original, verdict).await?;
    let mut warnings = input.contradictions();
    if verdict == Verdict::Rework {
        warnings.extend(begun_upon(writing, &original).await?);
    }
    let report = Report {
        tool: TOOL,
        task: Some(verification.task_id),
        status: Some(&codec::word(&input.verification_status)),
        body: input,
        warnings: &warnings,
    };
    let report = reports::record(writing, worker, report).await?;
    let over = Becomes { status: TaskStatus::Done, standing: None, is_let_go: true };
    task_state::set(writing, verification.task_id, over, None, None).await?;
    cascade::of_done(writing, verification.task_id, &verification.handle).await?;
    mark(writing, &original, verdict, &findings(input)).await?;
    let issues = keep_issues(writing, worker, &original, report, input).await?;
    let follow_ups = follow_up(writing, worker, &original, input).await?;
    let review_ticket_id = match input.verification_status {
        VerificationStatus::NeedsManualReview => {
            let title = format!("Review {}: {}", original.handle, original.title);
            let (kind, priority) = (TicketKind::Ticket, original.priority.into());
            let summary = &input.verification.summary;
            let ticket =
                tickets::open_for_person(writing, worker, kind, priority, &title, summary).await?;
            Some(ticket.1)
        }
        _ => None,
    };
    let message = verdict.says(&original.handle);
    let update = VerificationUpdate::new(&message, issues.len(), follow_ups.len());
    Ok(ReportVerificationResultOutput {
        success: true,
        verification_task_id: verification.handle,
        verification_status: input.verification_status,
        original_task_status: input.original_task_status,
        message,
        issues_found: some(issues),
        follow_up_tasks_created: some(follow_ups),
        original_task_marked: verdict,
        blocker_cleared: verdict != Verdict::Rework,
        dashboard_update: Some(update),
        review_ticket_id,
        warnings,
        answers: deliveries::tell_due(writing, worker, None).await?,
    })
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// Refuses unless this is the result of an open verification of a task that is done.
async fn refuse(
    writing: Writing<'_>,
    verification: &WorkTask,
    original: &WorkTask,
    verdict: Verdict,
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
        let handle: String = sqlx::query_scalar("SELECT handle FROM tasks WHERE task_id = ?1")
            .bind(Text(about))
            .fetch_one(writing)
            .await?;
        let message = format!("{} verifies {handle}, not {}", verification.handle, original.handle);
        return Err(Refusal::new(Code::InvalidArgument, message)
            .hint(format!("Call {TOOL} again with originalTaskId = \"{handle}\"."))
            .detail("path", "originalTaskId")
            .into());
    }
    if let Some(why) = closed(verification.status, verification.standing) {
        return Err(taken_already(verification, why).into());
    }
    // A task that is not done can only be found wanting.
    match original.status {
        TaskStatus::Cancelled => Err(taken_already(original, "was cancelled").into()),
        TaskStatus::Done => Ok(()),
        _ if verdict == Verdict::Rework => Ok(()),
        _ => Err(taken_already(original, "is not done yet, so it can't be verified").into()),
    }
}

/// Warns of tasks that depend on one which is to be done again, and were begun already.
async fn begun_upon(writing: Writing<'_>, original: &WorkTask) -> Result<Vec<String>> {
    let begun: Vec<String> = sqlx::query_scalar(
        "SELECT t.handle FROM task_dependencies d JOIN tasks t ON t.task_id = d.task_id
         WHERE d.depends_on = ?1 AND t.kind = 'work' AND t.deleted_at IS NULL
           AND t.status IN ('inprogress', 'inreview', 'done') ORDER BY t.task_id",
    )
    .bind(Text(original.task_id))
    .fetch_all(writing)
    .await?;
    let warn = |handle: String| format!("{handle} builds on {} and was begun.", original.handle);
    Ok(begun.into_iter().map(warn).collect())
}

/// What the next worker on the task has to know.
fn findings(input: &ReportVerificationResultInput) -> String {
    let mut text = input.verification.summary.to_string();
    for issue in input.issues() {
        let _ = write!(text, "\n- {}: {}", issue.title, issue.text);
    }
    text
}

async fn mark(
    writing: Writing<'_>,
    original: &WorkTask,
    verdict: Verdict,
    summary: &str,
) -> Result<()> {
    let (status, standing) = match verdict {
        Verdict::Verified => (TaskStatus::Done, Standing::Verified),
        Verdict::Rework => (TaskStatus::Todo, Standing::Rework),
        Verdict::Done => return Ok(()),
    };
    let now = Becomes { status, standing: Some(standing), is_let_go: true };
    task_state::set(writing, original.task_id, now, Some(summary), None).await
}

async fn keep_issues(
    writing: Writing<'_>,
    worker: &Worker,
    original: &WorkTask,
    report: ReportId,
    input: &ReportVerificationResultInput,
) -> Result<Vec<IssueFound>> {
    let severity = if input.verdict() == Verdict::Rework { Urgency::High } else { Urgency::Medium };
    let related_components = progress::files_of(writing, original.task_id).await?;
    let mut found = Vec::new();
    for issue in input.issues() {
        let note = Note {
            kind: NoteKind::Issue,
            task: Some(original.task_id),
            text: &format!("{}\n{}", issue.title, issue.text),
            category: Some("verification"),
            severity,
            report: Some(report),
            new_task: None,
            alert: None,
        };
        found.push(IssueFound {
            issue_id: notes::keep(writing, worker, &note).await?,
            title: issue.title,
            related_components: related_components.clone(),
            severity,
        });
    }
    Ok(found)
}

async fn follow_up(
    writing: Writing<'_>,
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
        let (_, task_id) = tasks::insert(writing, &draft).await?;
        made.push(FollowUpCreated {
            task_id,
            title: title.to_string(),
            related_to: original.handle.clone(),
            priority: codec::word(&original.priority),
        });
    }
    Ok(made)
}

//! `reportTaskDone`, `reportTaskCompleted` and `reportTaskStatus`, each one transaction.

use provost_actors::journal::checks::Delivered;
use provost_actors::journal::{Key, Once};
use provost_actors::refusal::{Code, Refusal};

use super::deliveries;
use super::notes::{self, Note};
use super::outcome::{self, Account, Outcome};
use super::progress;
use super::scope::WorkTask;
use crate::api::args::Between;
use crate::api::worker::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use crate::api::worker::done::{ObservationProcessed, ReportTaskDoneInput, ReportTaskDoneOutput};
use crate::api::worker::report::TaskMade;
use crate::api::worker::status::Cascaded;
use crate::api::worker::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use crate::api::worker::ticket::Urgency;
use crate::store::tasks::{self, Draft};
use crate::store::write_retry::Patience;
use crate::store::{Result, Store, Writing, codec};
use crate::work::Worker;
use crate::work::note::NoteKind;
use crate::work::report::message;
use crate::work::status::next_action;
use crate::work::suggestion;

impl Store {
    /// `reportTaskDone`. `delivered`: what is reported done.
    pub async fn report_task_done(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &ReportTaskDoneInput,
        delivered: Option<&Delivered>,
    ) -> Result<Once<ReportTaskDoneOutput>, Refusal> {
        self.keyed(Patience::Caller, key, "reportTaskDone", async |writing| {
            done(writing, worker, input, delivered).await
        })
        .await
    }

    /// `reportTaskCompleted`.
    pub async fn report_task_completed(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &ReportTaskCompletedInput,
        delivered: Option<&Delivered>,
    ) -> Result<Once<ReportTaskCompletedOutput>, Refusal> {
        self.keyed(Patience::Caller, key, "reportTaskCompleted", async |writing| {
            completed(writing, worker, input, delivered).await
        })
        .await
    }

    /// `reportTaskStatus`. When any part of it fails, none of it was done, and the
    /// refusal says that too.
    pub async fn report_task_status(
        &self,
        key: Option<&Key>,
        worker: &Worker,
        input: &ReportTaskStatusInput,
        delivered: Option<&Delivered>,
    ) -> Result<Once<ReportTaskStatusOutput>, Refusal> {
        self.keyed(Patience::Caller, key, "reportTaskStatus", async |writing| {
            status(writing, worker, input, delivered).await
        })
        .await
        .map_err(nothing_cascaded)
    }
}

fn nothing_cascaded(refusal: Refusal) -> Refusal {
    match refusal.code {
        Code::Internal => {
            // Two numbers always serialize.
            let none = serde_json::to_value(Cascaded::default()).unwrap_or_default();
            refusal.detail("cascaded", none)
        }
        _ => refusal,
    }
}

async fn done(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportTaskDoneInput,
    delivered: Option<&Delivered>,
) -> Result<ReportTaskDoneOutput> {
    input.check()?;
    let details = input.status_details.as_ref();
    let account = Account {
        tool: "reportTaskDone",
        task: &input.task_id,
        word: codec::word(&input.status),
        said: input.status.said(),
        reason: input.summary(),
        progress: details.and_then(|details| Some(details.progress_percent?.get())),
        notes: input.implementation_notes.as_deref(),
        files: input.files(),
        criteria: input.criteria(),
        contradictions: input.contradictions(),
        claims_passed: input.claims_passed(),
        delivered,
        body: input,
    };
    let outcome = outcome::take(writing, worker, account).await?;
    let observed = observe(writing, worker, &outcome, input).await?;
    let made = follow_up(writing, worker, &outcome.task, input).await?;
    let progress = progress::of(writing, worker).await?;
    let message = message(
        input.status.said(),
        outcome.checks_run,
        progress.ready,
        progress.dashboard.blocked_count,
        outcome.verification.is_some(),
    );
    let (next_task_id, next_task_preview) = progress.next.unzip();
    Ok(ReportTaskDoneOutput {
        success: true,
        task_id: outcome.task.handle,
        status: input.status,
        message,
        verification_task_created: outcome.verification,
        observations_processed: Some(observed).filter(|list| !list.is_empty()),
        next_task_id,
        next_task_preview,
        dashboard_update: Some(progress.dashboard),
        follow_up_tasks_created: Some(made).filter(|list| !list.is_empty()),
        warnings: outcome.warnings,
        answers: deliveries::tell_due(writing, worker, None).await?,
    })
}

async fn completed(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportTaskCompletedInput,
    delivered: Option<&Delivered>,
) -> Result<ReportTaskCompletedOutput> {
    input.check_paths()?;
    let account = Account {
        tool: "reportTaskCompleted",
        task: &input.task_id,
        word: codec::word(&input.status),
        said: input.status.said(),
        reason: input.output_summary.as_deref(),
        progress: None,
        notes: input.output_summary.as_deref(),
        files: input.files(),
        criteria: Vec::new(),
        contradictions: input.contradictions(),
        claims_passed: input.claims_passed(),
        delivered,
        body: input,
    };
    let outcome = outcome::take(writing, worker, account).await?;
    let next = progress::of(writing, worker).await?.next;
    Ok(ReportTaskCompletedOutput {
        acknowledged: true,
        next_task_suggested: next.map(|(handle, _)| handle),
        warnings: outcome.warnings,
        answers: deliveries::tell_due(writing, worker, None).await?,
    })
}

async fn status(
    writing: Writing<'_>,
    worker: &Worker,
    input: &ReportTaskStatusInput,
    delivered: Option<&Delivered>,
) -> Result<ReportTaskStatusOutput> {
    let said = input.status.said();
    let account = Account {
        tool: "reportTaskStatus",
        task: &input.task_id,
        word: codec::word(&input.status),
        said,
        reason: input.details.as_deref(),
        progress: input.progress_percent.map(Between::get),
        notes: input.details.as_deref(),
        files: Vec::new(),
        criteria: Vec::new(),
        contradictions: Vec::new(),
        claims_passed: false,
        delivered,
        body: input,
    };
    let Outcome { checks_run, cascaded, warnings, .. } =
        outcome::take(writing, worker, account).await?;
    let is_other_ready = progress::of(writing, worker).await?.ready > 0;
    let next_action = next_action(said, checks_run, is_other_ready);
    Ok(ReportTaskStatusOutput {
        acknowledged: true,
        next_action,
        cascaded,
        warnings,
        answers: deliveries::tell_due(writing, worker, None).await?,
    })
}

async fn observe(
    writing: Writing<'_>,
    worker: &Worker,
    outcome: &Outcome,
    input: &ReportTaskDoneInput,
) -> Result<Vec<ObservationProcessed>> {
    let mut processed = Vec::new();
    for observation in input.observations.iter().flat_map(|list| list.iter()) {
        let note = Note {
            kind: NoteKind::Observation,
            task: Some(outcome.task.task_id),
            text: observation,
            category: None,
            severity: Urgency::Low,
            report: Some(outcome.report),
            new_task: None,
            alert: None,
        };
        processed.push(ObservationProcessed {
            observation_id: notes::keep(writing, worker, &note).await?,
            observation: observation.to_string(),
            status: "noted".to_owned(),
            suggested_follow_up: suggestion::follow_up(observation),
        });
    }
    Ok(processed)
}

async fn follow_up(
    writing: Writing<'_>,
    worker: &Worker,
    task: &WorkTask,
    input: &ReportTaskDoneInput,
) -> Result<Vec<TaskMade>> {
    let mut made = Vec::new();
    for asked in input.follow_up_tasks.iter().flat_map(|list| list.iter()) {
        let brief = asked.brief();
        let draft = Draft {
            reason: Some(&asked.why),
            brief: brief.as_deref(),
            ..Draft::new(worker.project_id, &asked.title, task.priority)
        };
        let (_, task_id) = tasks::insert(writing, &draft).await?;
        made.push(TaskMade { task_id, title: asked.title.to_string() });
    }
    Ok(made)
}

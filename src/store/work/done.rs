//! `reportTaskDone`, `reportTaskCompleted` and `reportTaskStatus`, each one transaction.

use async_trait::async_trait;
use serde_json::json;

use super::notes::{self, Note};
use super::outcome::{self, ReportOutcome};
use super::scope::WorkTask;
use super::{Submission, WorkerCall, deliveries, queue};
use crate::api::worker::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use crate::api::worker::done::{ObservationProcessed, ReportTaskDoneInput, ReportTaskDoneOutput};
use crate::api::worker::report::TaskMade;
use crate::api::worker::status::{Cascaded, ReportTaskStatusInput, ReportTaskStatusOutput};
use crate::api::worker::ticket::Urgency;
use crate::store::tasks::{self, Draft};
use crate::store::{Code, Db, Refusal, Result};
use crate::work::report::{Said, message};
use crate::work::report_claims::next_action;
use crate::work::{Worker, suggestion};

#[async_trait]
impl WorkerCall for ReportTaskDoneInput {
    const TOOL: &'static str = "reportTaskDone";
    type Output = ReportTaskDoneOutput;

    fn reports_on(&self) -> Option<(&str, Said)> {
        Some((&*self.task_id, self.said()))
    }

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        submission: Option<&Submission>,
    ) -> Result<Self::Output> {
        let outcome = outcome::take(db, worker, self, self.report()?, submission).await?;
        let observed = observe(db, worker, &outcome, self).await?;
        let made = follow_up(db, worker, &outcome.task, self).await?;
        let progress = queue::progress(db, worker).await?;
        let message = message(
            self.said(),
            outcome.checks_run,
            progress.ready,
            progress.dashboard.blocked_count,
            outcome.verification.is_some(),
        );
        let (next_task_id, next_task_preview) = progress.next.unzip();
        Ok(ReportTaskDoneOutput {
            success: true,
            task_id: outcome.task.handle,
            status: self.status,
            message,
            verification_task_created: outcome.verification,
            observations_processed: Some(observed).filter(|list| !list.is_empty()),
            next_task_id,
            next_task_preview,
            dashboard_update: Some(progress.dashboard),
            follow_up_tasks_created: Some(made).filter(|list| !list.is_empty()),
            warnings: outcome.warnings,
            answers: deliveries::deliver_due(db, worker, None).await?,
        })
    }
}

#[async_trait]
impl WorkerCall for ReportTaskCompletedInput {
    const TOOL: &'static str = "reportTaskCompleted";
    type Output = ReportTaskCompletedOutput;

    fn reports_on(&self) -> Option<(&str, Said)> {
        Some((&*self.task_id, self.said()))
    }

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        submission: Option<&Submission>,
    ) -> Result<Self::Output> {
        let outcome = outcome::take(db, worker, self, self.report()?, submission).await?;
        let next = queue::progress(db, worker).await?.next;
        Ok(ReportTaskCompletedOutput {
            acknowledged: true,
            next_task_suggested: next.map(|(handle, _)| handle),
            warnings: outcome.warnings,
            answers: deliveries::deliver_due(db, worker, None).await?,
        })
    }
}

#[async_trait]
impl WorkerCall for ReportTaskStatusInput {
    const TOOL: &'static str = "reportTaskStatus";
    type Output = ReportTaskStatusOutput;

    fn reports_on(&self) -> Option<(&str, Said)> {
        Some((&*self.task_id, self.said()))
    }

    async fn take(
        &self,
        db: Db<'_>,
        worker: &Worker,
        submission: Option<&Submission>,
    ) -> Result<Self::Output> {
        let ReportOutcome { checks_run, cascaded, warnings, .. } =
            outcome::take(db, worker, self, self.report(), submission).await?;
        let is_other_ready = queue::progress(db, worker).await?.ready > 0;
        Ok(ReportTaskStatusOutput {
            acknowledged: true,
            next_action: next_action(self.said(), checks_run, is_other_ready),
            cascaded,
            warnings,
            answers: deliveries::deliver_due(db, worker, None).await?,
        })
    }

    /// Callers of this tool read `cascaded` also from a failure, so an internal error has it too.
    fn refused(refusal: Refusal) -> Refusal {
        match refusal.code {
            Code::Internal => refusal.detail("cascaded", json!(Cascaded::default())),
            _ => refusal,
        }
    }
}

/// Keeps the observations of a report as notes.
async fn observe(
    db: Db<'_>,
    worker: &Worker,
    outcome: &ReportOutcome,
    input: &ReportTaskDoneInput,
) -> Result<Vec<ObservationProcessed>> {
    let mut processed = Vec::new();
    for observation in input.observations.iter().flat_map(|list| list.iter()) {
        let note = Note {
            task: Some(outcome.task.task_id),
            text: observation,
            severity: Urgency::Low,
            report: Some(outcome.report),
            ..Note::default()
        };
        processed.push(ObservationProcessed {
            observation_id: notes::keep(db, worker, &note).await?,
            observation: observation.to_string(),
            status: "noted".to_owned(),
            suggested_follow_up: suggestion::follow_up(observation),
        });
    }
    Ok(processed)
}

/// Puts the follow-up tasks of a report on the board.
async fn follow_up(
    db: Db<'_>,
    worker: &Worker,
    task: &WorkTask,
    input: &ReportTaskDoneInput,
) -> Result<Vec<TaskMade>> {
    let mut made = Vec::new();
    for asked in input.follow_up_tasks.iter().flat_map(|list| list.iter()) {
        let draft = Draft {
            reason: Some(&asked.why),
            brief: asked.brief(),
            ..Draft::new(worker.project_id, &asked.title, task.priority)
        };
        let (_, task_id) = tasks::insert(db, &draft).await?;
        made.push(TaskMade { task_id, title: asked.title.to_string() });
    }
    Ok(made)
}

//! The traits behind the worker's tools: those of reports and notes, and all together.

use async_trait::async_trait;

use super::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use super::done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use super::failure::{ReportTestFailureInput, ReportTestFailureOutput};
use super::issue::{ReportIssueInput, ReportIssueOutput};
use super::observation::{ReportObservationInput, ReportObservationOutput};
use super::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use super::verification::{ReportVerificationResultInput, ReportVerificationResultOutput};
use crate::api::{Key, Once, Refusable, Session};

/// What the tools that report ask of the daemon.
#[async_trait]
pub trait ReportTools: Send + Sync {
    async fn report_task_done(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskDoneInput,
    ) -> Refusable<Once<ReportTaskDoneOutput>>;

    async fn report_task_completed(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskCompletedInput,
    ) -> Refusable<Once<ReportTaskCompletedOutput>>;

    async fn report_task_status(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskStatusInput,
    ) -> Refusable<Once<ReportTaskStatusOutput>>;

    async fn report_test_failure(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTestFailureInput,
    ) -> Refusable<Once<ReportTestFailureOutput>>;

    async fn report_verification_result(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportVerificationResultInput,
    ) -> Refusable<Once<ReportVerificationResultOutput>>;
}

/// What the tools about observations and issues ask of the daemon.
#[async_trait]
pub trait NoteTools: Send + Sync {
    async fn report_observation(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportObservationInput,
    ) -> Refusable<Once<ReportObservationOutput>>;

    async fn report_issue(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportIssueInput,
    ) -> Refusable<Once<ReportIssueOutput>>;
}

/// All that a worker asks of the daemon, and the inbox of what workers ask.
pub trait WorkerTools:
    super::consult::ConsultTools
    + super::immediate::ImmediateTools
    + super::question::AskTools
    + super::inbox::InboxTools
    + super::next::NextTools
    + NoteTools
    + ReportTools
    + super::ticket::TicketTools
{
}

impl<T> WorkerTools for T where
    T: super::consult::ConsultTools
        + super::immediate::ImmediateTools
        + super::question::AskTools
        + super::inbox::InboxTools
        + super::next::NextTools
        + NoteTools
        + ReportTools
        + super::ticket::TicketTools
{
}

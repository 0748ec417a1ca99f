//! What workers report of their work: each tool is one call of the store's. One that reports a
//! task as done says what is delivered with it, and has that checked.

use async_trait::async_trait;

use crate::api::worker::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use crate::api::worker::done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use crate::api::worker::failure::{ReportTestFailureInput, ReportTestFailureOutput};
use crate::api::worker::issue::{ReportIssueInput, ReportIssueOutput};
use crate::api::worker::observation::{ReportObservationInput, ReportObservationOutput};
use crate::api::worker::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use crate::api::worker::ticket::{CreateTicketInput, CreateTicketOutput, TicketTools};
use crate::api::worker::tools::{NoteTools, ReportTools};
use crate::api::worker::verification::{
    ReportVerificationResultInput, ReportVerificationResultOutput,
};
use crate::api::{Key, Once, Refusable, Session};
use crate::domain::Domain;
use crate::store::WorkerCall;

impl Domain {
    async fn worker_call<C: WorkerCall>(
        &self,
        session: &Session,
        key: Option<Key>,
        call: C,
    ) -> Refusable<Once<C::Output>> {
        let worker = self.worker(session, call.project()).await?;
        let delivery = match call.reports_on() {
            Some((task, said)) => self.delivery(&worker, task, said).await?,
            None => None,
        };
        let delivered = delivery.as_ref().map(|it| &it.delivered);
        let answer = self.store.worker_call(key.as_ref(), &worker, &call, delivered).await?;
        self.reported(delivery, &answer);
        Ok(answer)
    }
}

#[async_trait]
impl ReportTools for Domain {
    async fn report_task_done(
        &self,
        session: &Session,
        key: Option<Key>,
        call: ReportTaskDoneInput,
    ) -> Refusable<Once<ReportTaskDoneOutput>> {
        self.worker_call(session, key, call).await
    }

    async fn report_task_completed(
        &self,
        session: &Session,
        key: Option<Key>,
        call: ReportTaskCompletedInput,
    ) -> Refusable<Once<ReportTaskCompletedOutput>> {
        self.worker_call(session, key, call).await
    }

    async fn report_task_status(
        &self,
        session: &Session,
        key: Option<Key>,
        call: ReportTaskStatusInput,
    ) -> Refusable<Once<ReportTaskStatusOutput>> {
        self.worker_call(session, key, call).await
    }

    async fn report_test_failure(
        &self,
        session: &Session,
        key: Option<Key>,
        call: ReportTestFailureInput,
    ) -> Refusable<Once<ReportTestFailureOutput>> {
        self.worker_call(session, key, call).await
    }

    async fn report_verification_result(
        &self,
        session: &Session,
        key: Option<Key>,
        call: ReportVerificationResultInput,
    ) -> Refusable<Once<ReportVerificationResultOutput>> {
        self.worker_call(session, key, call).await
    }
}

#[async_trait]
impl NoteTools for Domain {
    async fn report_observation(
        &self,
        session: &Session,
        key: Option<Key>,
        call: ReportObservationInput,
    ) -> Refusable<Once<ReportObservationOutput>> {
        self.worker_call(session, key, call).await
    }

    async fn report_issue(
        &self,
        session: &Session,
        key: Option<Key>,
        call: ReportIssueInput,
    ) -> Refusable<Once<ReportIssueOutput>> {
        self.worker_call(session, key, call).await
    }
}

#[async_trait]
impl TicketTools for Domain {
    async fn create_ticket(
        &self,
        session: &Session,
        key: Option<Key>,
        call: CreateTicketInput,
    ) -> Refusable<Once<CreateTicketOutput>> {
        self.worker_call(session, key, call).await
    }
}

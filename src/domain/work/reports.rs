//! Reports: each is the store's one transaction, and one of a task that is done says
//! what is delivered with it.

use crate::api::Refusable;
use crate::api::worker::tools::ReportTools;
use async_trait::async_trait;

use crate::api::worker::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use crate::api::worker::done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use crate::api::worker::failure::{ReportTestFailureInput, ReportTestFailureOutput};
use crate::api::worker::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use crate::api::worker::verification::{
    ReportVerificationResultInput, ReportVerificationResultOutput,
};
use crate::api::{Key, Once, Session};
use crate::domain::Domain;

#[async_trait]
impl ReportTools for Domain {
    async fn report_task_done(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskDoneInput,
    ) -> Refusable<Once<ReportTaskDoneOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        let delivery = self.delivery(&worker, &input.task_id, input.status.said()).await?;
        let delivered = delivery.as_ref().map(|it| &it.delivered);
        let answer = self.store.report_task_done(key.as_ref(), &worker, &input, delivered).await?;
        self.reported(delivery, &answer);
        Ok(answer)
    }

    async fn report_test_failure(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTestFailureInput,
    ) -> Refusable<Once<ReportTestFailureOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_test_failure(key.as_ref(), &worker, &input).await
    }

    async fn report_verification_result(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportVerificationResultInput,
    ) -> Refusable<Once<ReportVerificationResultOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_verification_result(key.as_ref(), &worker, &input).await
    }

    async fn report_task_completed(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskCompletedInput,
    ) -> Refusable<Once<ReportTaskCompletedOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        let delivery = self.delivery(&worker, &input.task_id, input.status.said()).await?;
        let delivered = delivery.as_ref().map(|it| &it.delivered);
        let answer =
            self.store.report_task_completed(key.as_ref(), &worker, &input, delivered).await?;
        self.reported(delivery, &answer);
        Ok(answer)
    }

    async fn report_task_status(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskStatusInput,
    ) -> Refusable<Once<ReportTaskStatusOutput>> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        let delivery = self.delivery(&worker, &input.task_id, input.status.said()).await?;
        let delivered = delivery.as_ref().map(|it| &it.delivered);
        let answer =
            self.store.report_task_status(key.as_ref(), &worker, &input, delivered).await?;
        self.reported(delivery, &answer);
        Ok(answer)
    }
}

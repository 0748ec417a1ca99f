//! Reports: each is the store's one transaction, and one of a task that is done says
//! what is delivered with it.

use provost_actors::refusal::Refusal;

use crate::domain::Domain;
use crate::mcp::ask::{Answer, Key, Session};
use crate::work::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use crate::work::done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use crate::work::failure::{ReportTestFailureInput, ReportTestFailureOutput};
use crate::work::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use crate::work::verification::{ReportVerificationResultInput, ReportVerificationResultOutput};

impl Domain {
    pub(in crate::domain) async fn task_done(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskDoneInput,
    ) -> Result<Answer<ReportTaskDoneOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        let delivery = self.delivery(&worker, &input.task_id, input.status.said()).await?;
        let delivered = delivery.as_ref().map(|it| &it.delivered);
        let answer = self.store.report_task_done(key.as_ref(), &worker, &input, delivered).await?;
        self.reported(delivery, &answer);
        Ok(answer)
    }

    pub(in crate::domain) async fn task_completed(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskCompletedInput,
    ) -> Result<Answer<ReportTaskCompletedOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        let delivery = self.delivery(&worker, &input.task_id, input.status.said()).await?;
        let delivered = delivery.as_ref().map(|it| &it.delivered);
        let answer =
            self.store.report_task_completed(key.as_ref(), &worker, &input, delivered).await?;
        self.reported(delivery, &answer);
        Ok(answer)
    }

    pub(in crate::domain) async fn task_status(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTaskStatusInput,
    ) -> Result<Answer<ReportTaskStatusOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        let delivery = self.delivery(&worker, &input.task_id, input.status.said()).await?;
        let delivered = delivery.as_ref().map(|it| &it.delivered);
        let answer =
            self.store.report_task_status(key.as_ref(), &worker, &input, delivered).await?;
        self.reported(delivery, &answer);
        Ok(answer)
    }

    pub(in crate::domain) async fn test_failure(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportTestFailureInput,
    ) -> Result<Answer<ReportTestFailureOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_test_failure(key.as_ref(), &worker, &input).await
    }

    pub(in crate::domain) async fn verification_result(
        &self,
        session: &Session,
        key: Option<Key>,
        input: ReportVerificationResultInput,
    ) -> Result<Answer<ReportVerificationResultOutput>, Refusal> {
        let worker = self.worker(session, input.project_id.as_deref()).await?;
        self.store.report_verification_result(key.as_ref(), &worker, &input).await
    }
}

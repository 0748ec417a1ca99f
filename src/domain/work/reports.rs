//! The tools by which workers report: each is one transaction of the store. A tool that reports a task as
//! done first freezes what is delivered, and has it checked after the transaction.

use async_trait::async_trait;

use crate::api::worker::ReportTools;
use crate::api::worker::completed::ReportTaskCompletedInput;
use crate::api::worker::done::ReportTaskDoneInput;
use crate::api::worker::failure::ReportTestFailureInput;
use crate::api::worker::issue::ReportIssueInput;
use crate::api::worker::observation::ReportObservationInput;
use crate::api::worker::status::ReportTaskStatusInput;
use crate::api::worker::ticket::CreateTicketInput;
use crate::api::worker::verification::ReportVerificationResultInput;
use crate::api::{Caller, Idempotent, Key, Refusable};
use crate::domain::Domain;
use crate::store::WorkerCall;

impl Domain {
    /// One call of a worker: freeze, record, check. The order matters: the report's row names the frozen
    /// commits, and checks of a report that was refused must not run.
    async fn worker_call<C: WorkerCall>(
        &self,
        caller: &Caller,
        key: Option<Key>,
        project: Option<&str>,
        call: &C,
    ) -> Refusable<Idempotent<C::Output>> {
        let worker = self.worker(caller, project).await?;
        let frozen = match call.reports_on() {
            Some((task, said)) => Box::pin(self.freeze_submission(&worker, task, said)).await?,
            None => None,
        };
        let submission = frozen.as_ref().map(|it| &it.submission);
        let answer = self.store.worker_call(key.as_ref(), &worker, call, submission).await?;
        self.reported(frozen, &answer);
        Ok(answer)
    }
}

/// Implements the tools: each of them is one `Domain::worker_call`.
macro_rules! worker_calls {
    ($($tool:ident($input:ty))*) => {
        #[async_trait]
        impl ReportTools for Domain {
            $(async fn $tool(
                &self,
                caller: &Caller,
                key: Option<Key>,
                call: $input,
            ) -> Refusable<Idempotent<<$input as WorkerCall>::Output>> {
                self.worker_call(caller, key, call.project_id.as_deref(), &call).await
            })*
        }
    };
}

worker_calls! {
    report_task_done(ReportTaskDoneInput)
    report_task_completed(ReportTaskCompletedInput)
    report_task_status(ReportTaskStatusInput)
    report_test_failure(ReportTestFailureInput)
    report_verification_result(ReportVerificationResultInput)
    report_observation(ReportObservationInput)
    report_issue(ReportIssueInput)
    create_ticket(CreateTicketInput)
}

//! The worker API: the tools of the agent that does a task. Their fields have the names of the API's
//! specification.

pub mod completed;
pub mod done;
pub mod failure;
pub mod inbox;
pub mod issue;
pub mod next;
pub mod observation;
pub mod path;
pub mod question;
pub mod report;
pub mod status;
pub mod ticket;
pub mod verification;

use completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use failure::{ReportTestFailureInput, ReportTestFailureOutput};
use issue::{ReportIssueInput, ReportIssueOutput};
use observation::{ReportObservationInput, ReportObservationOutput};
use status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use ticket::{CreateTicketInput, CreateTicketOutput};
use verification::{ReportVerificationResultInput, ReportVerificationResultOutput};

// The tools whose call is one transaction of the store.
tools! {
    ReportTools:
    change report_task_done(ReportTaskDoneInput) -> ReportTaskDoneOutput;
    change report_task_completed(ReportTaskCompletedInput) -> ReportTaskCompletedOutput;
    change report_task_status(ReportTaskStatusInput) -> ReportTaskStatusOutput;
    change report_test_failure(ReportTestFailureInput) -> ReportTestFailureOutput;
    change report_verification_result(ReportVerificationResultInput) -> ReportVerificationResultOutput;
    change report_observation(ReportObservationInput) -> ReportObservationOutput;
    change report_issue(ReportIssueInput) -> ReportIssueOutput;
    change create_ticket(CreateTicketInput) -> CreateTicketOutput;
}

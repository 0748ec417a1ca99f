//! The traits behind the tools that report and note.

use super::completed::{ReportTaskCompletedInput, ReportTaskCompletedOutput};
use super::done::{ReportTaskDoneInput, ReportTaskDoneOutput};
use super::failure::{ReportTestFailureInput, ReportTestFailureOutput};
use super::issue::{ReportIssueInput, ReportIssueOutput};
use super::observation::{ReportObservationInput, ReportObservationOutput};
use super::status::{ReportTaskStatusInput, ReportTaskStatusOutput};
use super::verification::{ReportVerificationResultInput, ReportVerificationResultOutput};

tools! {
    ReportTools:
    change report_task_done(ReportTaskDoneInput) -> ReportTaskDoneOutput;
    change report_task_completed(ReportTaskCompletedInput) -> ReportTaskCompletedOutput;
    change report_task_status(ReportTaskStatusInput) -> ReportTaskStatusOutput;
    change report_test_failure(ReportTestFailureInput) -> ReportTestFailureOutput;
    change report_verification_result(ReportVerificationResultInput) -> ReportVerificationResultOutput;
}

tools! {
    NoteTools:
    change report_observation(ReportObservationInput) -> ReportObservationOutput;
    change report_issue(ReportIssueInput) -> ReportIssueOutput;
}

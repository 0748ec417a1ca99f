//! What `reportTaskDone`, its short form `reportTaskCompleted`, and `reportTaskStatus` say about a task, in
//! terms that all of them share. Pure.

use super::report::{Said, TaskReport};
use crate::api::args::Between;
use crate::api::brief::Brief;
use crate::api::worker::completed::{CompletedStatus, ReportTaskCompletedInput};
use crate::api::worker::done::{
    CriterionStatus, DoneStatus, FollowUpTask, ReportTaskDoneInput, Testing,
};
use crate::api::worker::path;
use crate::api::worker::status::{NextAction, ReportTaskStatusInput, TaskProgress};
use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::cut;
use serde_json::json;

impl ReportTaskDoneInput {
    /// The tool's word in the terms that all reporting tools share.
    pub fn said(&self) -> Said {
        match self.status {
            DoneStatus::Done => Said::Done,
            DoneStatus::Failed => Said::Failed,
            DoneStatus::Blocked => Said::Blocked,
            DoneStatus::Partial => Said::Partial,
        }
    }

    /// The report in shared terms. Refuses criteria that are not named by number, and paths that lead out of
    /// the repository.
    pub fn report(&self) -> Result<TaskReport<'_>, Refusal> {
        let named = || self.acceptance_criteria_verification.iter().flatten();
        if let Some((name, _)) = named().find(|(name, _)| name.parse::<u16>().is_err()) {
            let path = format!("acceptanceCriteriaVerification.{}", cut(name.clone(), 60));
            let message = format!("`{path}` is not the number of a criterion: they count from 0.");
            return Err(Refusal::new(Code::InvalidArgument, message)
                .hint("Call reportTaskDone again with \"0\" for the first criterion.")
                .detail("path", path));
        }
        let files = self.files_modified.iter().flat_map(|files| files.iter());
        let files: Vec<&str> = files.map(|file| &**file).collect();
        path::check_all("filesModified", files.iter().copied())?;
        let testing = self.testing.as_ref();
        if let Some(file) = testing.and_then(|it| it.test_file_created.as_deref()) {
            path::check("testing.testFileCreated", file)?;
        }
        let details = self.status_details.as_ref();
        let reason = match self.status {
            DoneStatus::Done => None,
            DoneStatus::Failed => details.and_then(|it| it.failure_reason.as_deref()),
            DoneStatus::Blocked => details.and_then(|it| it.blocked_reason.as_deref()),
            DoneStatus::Partial => details.and_then(|it| it.partially_done.as_deref()),
        };
        let notes = self.implementation_notes.as_deref();
        let criteria = named().filter_map(|(n, it)| Some((n.parse().ok()?, &*it.text)));
        Ok(TaskReport {
            task: &self.task_id,
            status: json!(self.status),
            said: self.said(),
            reason: reason.or(notes),
            progress: details.and_then(|it| it.progress_percent).map(Between::get),
            notes,
            files,
            criteria: criteria.collect(),
            claims_passed: testing.is_some_and(have_passed),
            contradictions: self.contradictions(),
        })
    }

    /// Where a report of done also reports failed tests or criteria.
    fn contradictions(&self) -> Vec<String> {
        let mut contradictions = Vec::new();
        if self.status != DoneStatus::Done {
            return contradictions;
        }
        if let Some(testing) = self.testing.as_ref().filter(|testing| !have_passed(testing)) {
            let names = testing.failed_test_names.iter().flat_map(|it| it.iter());
            let names = names.map(|name| &**name).collect::<Vec<&str>>().join(", ");
            let names = if names.is_empty() { names } else { format!(" ({names})") };
            let failed = testing.tests_failed.get();
            contradictions.push(format!(
                "The task is reported as done, and its tests as failed: {failed} of them{names}."
            ));
        }
        let criteria = self.acceptance_criteria_verification.iter().flatten();
        for (number, criterion) in criteria.filter(|(_, it)| it.status == CriterionStatus::Failed) {
            let text = &*criterion.text;
            contradictions.push(format!(
                "The task is reported as done, and acceptance criterion {number} as failed: {text}"
            ));
        }
        contradictions
    }
}

fn have_passed(testing: &Testing) -> bool {
    testing.tests_passed && testing.tests_failed.get() == 0
}

impl FollowUpTask {
    /// The brief of the follow-up task as JSON: its estimate. `None`: no estimate is given.
    pub fn brief(&self) -> Option<String> {
        let estimated_hours = self.estimated_hours.as_ref()?.number().clone();
        Some(Brief { estimated_hours: Some(estimated_hours), ..Brief::default() }.to_json())
    }
}

impl ReportTaskCompletedInput {
    /// The tool's word in the terms that all reporting tools share.
    pub fn said(&self) -> Said {
        match self.status {
            CompletedStatus::Success => Said::Done,
            CompletedStatus::Partial => Said::Partial,
            CompletedStatus::Failed => Said::Failed,
        }
    }

    /// The report in shared terms. Refuses paths that lead out of the repository.
    pub fn report(&self) -> Result<TaskReport<'_>, Refusal> {
        let files = self.files_modified.iter().flat_map(|files| files.iter());
        let files: Vec<&str> = files.map(|file| &**file).collect();
        path::check_all("files_modified", files.iter().copied())?;
        let results = self.test_results.as_ref();
        let (passed, failed) = results.map_or((0, 0), |it| (it.passed.get(), it.failed.get()));
        let is_contrary = self.status == CompletedStatus::Success && failed > 0;
        let contradiction =
            || format!("The task is reported as a success, and {failed} of its tests as failed.");
        Ok(TaskReport {
            task: &self.task_id,
            status: json!(self.status),
            said: self.said(),
            reason: self.output_summary.as_deref(),
            progress: None,
            notes: self.output_summary.as_deref(),
            files,
            criteria: Vec::new(),
            claims_passed: passed > 0 && failed == 0,
            contradictions: is_contrary.then(contradiction).into_iter().collect(),
        })
    }
}

impl ReportTaskStatusInput {
    /// The tool's word in the terms that all reporting tools share.
    pub fn said(&self) -> Said {
        match self.status {
            TaskProgress::InProgress => Said::InProgress,
            TaskProgress::Blocked => Said::Blocked,
            TaskProgress::Done => Said::Done,
            TaskProgress::Failed => Said::Failed,
            TaskProgress::Paused => Said::Paused,
        }
    }

    /// The report in shared terms; it names no files, criteria or tests.
    pub fn report(&self) -> TaskReport<'_> {
        TaskReport {
            task: &self.task_id,
            status: json!(self.status),
            said: self.said(),
            reason: self.details.as_deref(),
            progress: self.progress_percent.map(Between::get),
            notes: self.details.as_deref(),
            files: Vec::new(),
            criteria: Vec::new(),
            claims_passed: false,
            contradictions: Vec::new(),
        }
    }
}

/// What the worker should do after a report, by what is left: this task, its checks, or other tasks. `None`:
/// nothing.
pub fn next_action(said: Said, checks_run: bool, is_other_ready: bool) -> Option<NextAction> {
    match said {
        Said::InProgress | Said::Partial => Some(NextAction::Continue),
        Said::Done if checks_run => Some(NextAction::AwaitChecks),
        _ => is_other_ready.then_some(NextAction::GetNextTask),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const STATUSES: [DoneStatus; 4] =
        [DoneStatus::Done, DoneStatus::Failed, DoneStatus::Blocked, DoneStatus::Partial];

    fn report(
        status: DoneStatus,
        passed: bool,
        failed: u32,
        criteria: &[&str],
    ) -> ReportTaskDoneInput {
        let criteria = criteria.iter().enumerate();
        let criteria: BTreeMap<_, _> = criteria
            .map(|(n, status)| (n.to_string(), json!({"text": "t", "status": status})))
            .collect();
        serde_json::from_value(json!({
            "taskId": "TASK-001", "status": status, "implementationNotes": "notes",
            "statusDetails": {"blockedReason": "blocked", "failureReason": "failed"},
            "testing": {"testsAdded": true, "testsPassed": passed, "testsFailed": failed},
            "acceptanceCriteriaVerification": criteria,
        }))
        .unwrap()
    }

    #[test]
    fn the_summary_is_the_reason_where_one_is_given() {
        let reason = |status| {
            let input = report(status, true, 0, &[]);
            input.report().unwrap().reason.map(str::to_owned)
        };
        let summaries = STATUSES.map(reason);
        let expected = ["notes", "failed", "blocked", "notes"];
        assert_eq!(summaries, expected.map(|summary| Some(summary.to_owned())));
    }

    proptest! {
        #[test]
        fn only_what_is_called_done_can_speak_against_itself(
            status in proptest::sample::select(STATUSES.to_vec()),
            passed in any::<bool>(),
            failed in 0_u32..3,
            criteria in proptest::collection::vec(
                proptest::sample::select(vec!["passed", "failed", "not-applicable"]), 0..4),
        ) {
            let input = report(status, passed, failed, &criteria);
            let report = input.report().unwrap();
            let of_tests = usize::from(!passed || failed > 0);
            let of_criteria = criteria.iter().filter(|status| **status == "failed").count();
            let expected = if status == DoneStatus::Done { of_tests + of_criteria } else { 0 };
            prop_assert_eq!(report.contradictions.len(), expected);
            prop_assert_eq!(report.claims_passed, of_tests == 0);
        }
    }

    #[test]
    fn a_worker_is_sent_where_there_is_something_to_do() {
        assert_eq!(next_action(Said::InProgress, false, true), Some(NextAction::Continue));
        assert_eq!(next_action(Said::Done, true, true), Some(NextAction::AwaitChecks));
        assert_eq!(next_action(Said::Done, false, true), Some(NextAction::GetNextTask));
        assert_eq!(next_action(Said::Blocked, false, true), Some(NextAction::GetNextTask));
        assert_eq!(next_action(Said::Failed, false, false), None);
    }
}

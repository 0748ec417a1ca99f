//! `reportTaskDone`: a task is done, or why it is not.

use super::report::{Said, TaskReport};
use crate::api::brief::Brief;
use crate::api::worker::done::{CriterionStatus, DoneStatus, FollowUpTask, ReportTaskDoneInput};
use crate::api::worker::path;
use provost_actors::refusal::{Code, Refusal};
use provost_actors::text::cut;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl TaskReport for ReportTaskDoneInput {
    fn task(&self) -> &str {
        &self.task_id
    }

    fn status(&self) -> Value {
        json!(self.status)
    }

    fn said(&self) -> Said {
        match self.status {
            DoneStatus::Done => Said::Done,
            DoneStatus::Failed => Said::Failed,
            DoneStatus::Blocked => Said::Blocked,
            DoneStatus::Partial => Said::Partial,
        }
    }

    /// Refuses criteria that are not named by number, and paths that lead out of the
    /// repository.
    fn check(&self) -> Result<(), Refusal> {
        let names = self.acceptance_criteria_verification.iter().flat_map(BTreeMap::keys);
        if let Some(name) = names.into_iter().find(|name| name.parse::<u16>().is_err()) {
            let path = format!("acceptanceCriteriaVerification.{}", cut(name.clone(), 60));
            let message = format!("`{path}` is not the number of a criterion: they count from 0.");
            return Err(Refusal::new(Code::InvalidArgument, message)
                .hint("Call reportTaskDone again with \"0\" for the first criterion.")
                .detail("path", path));
        }
        path::check_all("filesModified", self.files())?;
        let test_file = self.testing.as_ref().and_then(|it| it.test_file_created.as_deref());
        test_file.map_or(Ok(()), |file| path::check("testing.testFileCreated", file))
    }

    fn reason(&self) -> Option<&str> {
        let details = self.status_details.as_ref();
        let of_status = match self.status {
            DoneStatus::Done => None,
            DoneStatus::Failed => details.and_then(|it| it.failure_reason.as_deref()),
            DoneStatus::Blocked => details.and_then(|it| it.blocked_reason.as_deref()),
            DoneStatus::Partial => details.and_then(|it| it.partially_done.as_deref()),
        };
        of_status.or(self.implementation_notes.as_deref())
    }

    fn progress(&self) -> Option<i64> {
        Some(self.status_details.as_ref()?.progress_percent?.get())
    }

    fn notes(&self) -> Option<&str> {
        self.implementation_notes.as_deref()
    }

    fn files(&self) -> Vec<&str> {
        self.files_modified.iter().flat_map(|it| it.iter()).map(|it| &**it).collect()
    }

    fn criteria(&self) -> Vec<(usize, &str)> {
        let criteria = self.acceptance_criteria_verification.iter().flatten();
        criteria
            .filter_map(|(number, criterion)| Some((number.parse().ok()?, &*criterion.text)))
            .collect()
    }

    fn claims_passed(&self) -> bool {
        let testing = self.testing.as_ref();
        testing.is_some_and(|testing| testing.tests_passed && testing.tests_failed.get() == 0)
    }

    fn contradictions(&self) -> Vec<String> {
        if self.status != DoneStatus::Done {
            return Vec::new();
        }
        let mut contradictions = Vec::new();
        if let Some(testing) = self.testing.as_ref().filter(|_| !self.claims_passed()) {
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

impl FollowUpTask {
    /// What its brief holds: the estimate.
    pub fn brief(&self) -> Option<String> {
        let estimated_hours = self.estimated_hours.as_ref()?.number().clone();
        Some(Brief { estimated_hours: Some(estimated_hours), ..Brief::default() }.to_json())
    }
}

#[cfg(test)]
mod tests {
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
        let summaries =
            STATUSES.map(|status| report(status, true, 0, &[]).reason().map(str::to_owned));
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
            let report = report(status, passed, failed, &criteria);
            let of_tests = usize::from(!passed || failed > 0);
            let of_criteria = criteria.iter().filter(|status| **status == "failed").count();
            let expected = if status == DoneStatus::Done { of_tests + of_criteria } else { 0 };
            prop_assert_eq!(report.contradictions().len(), expected);
            prop_assert_eq!(report.claims_passed(), of_tests == 0);
        }
    }
}

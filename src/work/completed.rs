//! `reportTaskCompleted`: the short form of a report that a task is over.

use super::report::{Said, TaskReport};
use crate::api::worker::completed::{CompletedStatus, ReportTaskCompletedInput};
use crate::api::worker::path;
use provost_actors::refusal::Refusal;
use serde_json::{Value, json};

impl TaskReport for ReportTaskCompletedInput {
    fn task(&self) -> &str {
        &self.task_id
    }

    fn status(&self) -> Value {
        json!(self.status)
    }

    fn said(&self) -> Said {
        match self.status {
            CompletedStatus::Success => Said::Done,
            CompletedStatus::Partial => Said::Partial,
            CompletedStatus::Failed => Said::Failed,
        }
    }

    fn check(&self) -> Result<(), Refusal> {
        path::check_all("files_modified", self.files())
    }

    fn reason(&self) -> Option<&str> {
        self.output_summary.as_deref()
    }

    fn files(&self) -> Vec<&str> {
        self.files_modified.iter().flat_map(|it| it.iter()).map(|it| &**it).collect()
    }

    fn claims_passed(&self) -> bool {
        let results = self.test_results.as_ref();
        results.is_some_and(|results| results.passed.get() > 0 && results.failed.get() == 0)
    }

    fn contradictions(&self) -> Vec<String> {
        let failed = self.test_results.as_ref().map_or(0, |results| results.failed.get());
        if self.status == CompletedStatus::Success && failed > 0 {
            vec![format!("The task is reported as a success, and {failed} of its tests as failed.")]
        } else {
            Vec::new()
        }
    }
}

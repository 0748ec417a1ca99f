//! `reportTaskCompleted`: the short form of a report that a task is over.

use super::report::{Said, TaskReport};
use crate::api::worker::completed::{CompletedStatus, ReportTaskCompletedInput};
use crate::api::worker::path;
use provost_actors::refusal::Refusal;
use serde_json::json;

impl ReportTaskCompletedInput {
    pub fn said(&self) -> Said {
        match self.status {
            CompletedStatus::Success => Said::Done,
            CompletedStatus::Partial => Said::Partial,
            CompletedStatus::Failed => Said::Failed,
        }
    }

    /// Refuses paths that lead out of the repository.
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

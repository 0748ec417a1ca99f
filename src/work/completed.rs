//! `reportTaskCompleted`: the short form of a report that a task is over.

use super::report::Said;
use crate::api::worker::completed::{CompletedStatus, ReportTaskCompletedInput};
use crate::api::worker::path;
use provost_actors::refusal::Refusal;

impl CompletedStatus {
    pub fn said(self) -> Said {
        match self {
            Self::Success => Said::Done,
            Self::Partial => Said::Partial,
            Self::Failed => Said::Failed,
        }
    }
}

impl ReportTaskCompletedInput {
    /// The files that it names as changed.
    pub fn files(&self) -> Vec<&str> {
        self.files_modified.iter().flat_map(|it| it.iter()).map(|it| &**it).collect()
    }

    /// Refuses paths that lead out of the repository.
    pub fn check_paths(&self) -> Result<(), Refusal> {
        path::check_all("files_modified", self.files())
    }

    /// Whether it says that its tests passed.
    pub fn claims_passed(&self) -> bool {
        let results = self.test_results.as_ref();
        results.is_some_and(|results| results.passed.get() > 0 && results.failed.get() == 0)
    }

    /// Where a report of success speaks against itself.
    pub fn contradictions(&self) -> Vec<String> {
        let failed = self.test_results.as_ref().map_or(0, |results| results.failed.get());
        if self.status == CompletedStatus::Success && failed > 0 {
            vec![format!("The task is reported as a success, and {failed} of its tests as failed.")]
        } else {
            Vec::new()
        }
    }
}

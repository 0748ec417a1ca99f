//! `reportTaskStatus`: how a task goes, at any time.

use super::report::{Said, TaskReport};
use crate::api::args::Between;
use crate::api::worker::status::{NextAction, ReportTaskStatusInput, TaskProgress};
use serde_json::json;

impl ReportTaskStatusInput {
    pub fn said(&self) -> Said {
        match self.status {
            TaskProgress::InProgress => Said::InProgress,
            TaskProgress::Blocked => Said::Blocked,
            TaskProgress::Done => Said::Done,
            TaskProgress::Failed => Said::Failed,
            TaskProgress::Paused => Said::Paused,
        }
    }

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

/// What to do after a report, by what waits: checks of this task, or other work.
pub fn next_action(said: Said, checks_run: bool, is_other_ready: bool) -> Option<NextAction> {
    match said {
        Said::InProgress | Said::Partial => Some(NextAction::Continue),
        Said::Done if checks_run => Some(NextAction::AwaitChecks),
        _ => is_other_ready.then_some(NextAction::GetNextTask),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_sent_where_there_is_something_to_do() {
        assert_eq!(next_action(Said::InProgress, false, true), Some(NextAction::Continue));
        assert_eq!(next_action(Said::Done, true, true), Some(NextAction::AwaitChecks));
        assert_eq!(next_action(Said::Done, false, true), Some(NextAction::GetNextTask));
        assert_eq!(next_action(Said::Blocked, false, true), Some(NextAction::GetNextTask));
        assert_eq!(next_action(Said::Failed, false, false), None);
    }
}

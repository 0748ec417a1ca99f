//! `reportIssue`.

use crate::api::prelude::*;
use crate::api::worker::path;

/// The description of `reportIssue`, by which a model decides whether to call it.
pub const REPORT_ISSUE: &str = "\
Use when: a problem blocks or worries you, and is not yours to fix.
Next: continue if you can; else reportTaskStatus with status = blocked.
Avoid: using it for a failing test (reportTestFailure).";

#[apply(input)]
pub struct ReportIssueInput {
    /// What is wrong, in 1 to 800 characters.
    pub issue_description: Text<1, 800>,
    /// 1 = critical, which alerts a person; 2 or 3.
    pub severity: Level,
    pub task_id: Option<Text<1, 64>>,
    /// Path of the related file.
    pub file_path: Option<Text<1, 1024>>,
    /// How to reproduce it.
    pub repro_steps: Option<Text<0, 5000>>,
    /// true alerts a person for severity 2 too.
    pub immediate: bool,
    pub project_id: Option<ProjectName>,
}

impl ReportIssueInput {
    /// Refuses a path that leads out of the repository.
    pub fn check(&self) -> Result<(), Refusal> {
        self.file_path.as_ref().map_or(Ok(()), |file| path::check("file_path", file))
    }

    /// Whether a person should see it at once.
    pub fn is_alert(&self) -> bool {
        let urgency = self.severity.urgency();
        urgency == Priority::Critical || (self.immediate && urgency == Priority::High)
    }
}

#[apply(output)]
pub struct ReportIssueOutput {
    pub logged: bool,
    /// Whether a person is alerted.
    pub escalated: bool,
    /// Its handle: ISSUE-001.
    pub issue_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_ticket: Option<String>,
    pub answers: Vec<LateAnswer>,
}

/// How bad something is: 1 is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(Between<1, 3>);

impl Level {
    /// The level as an urgency: 1 is critical, 2 high, 3 medium.
    pub fn urgency(self) -> Priority {
        match self.0.get() {
            1 => Priority::Critical,
            2 => Priority::High,
            _ => Priority::Medium,
        }
    }
}

schema!([] Level, |_| json_schema!({ "type": "integer", "enum": [1, 2, 3] }));

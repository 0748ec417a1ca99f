//! `reportVerificationResult`.

use crate::api::prelude::*;

/// The description of `reportVerificationResult`, by which a model decides whether to call it.
pub const REPORT_VERIFICATION_RESULT: &str = "\
Use when: you have done a verification task (TASK-VERIFY-001).
Next: getNextTask; it returns an original that needs rework again.
Avoid: passed when an item failed; reportTaskDone for the same verification.";

#[apply(camel_input)]
pub struct ReportVerificationResultInput {
    /// TASK-VERIFY-001 or a UUID.
    pub verification_task_id: Text<1, 64>,
    /// What it verifies: TASK-001 or a UUID.
    pub original_task_id: Text<1, 64>,
    pub verification_status: VerificationStatus,
    /// The items checked and their results.
    pub verification: Verification,
    pub original_task_status: OriginalStatus,
    /// Tasks to create from it, a line each.
    pub suggested_actions: Option<List<Text<1, 1000>, 0, 20>>,
    pub project_id: Option<ProjectName>,
}

#[apply(hyphened_word)]
pub enum VerificationStatus {
    Passed,
    Failed,
    Partial,
    NeedsManualReview,
}

#[apply(word)]
pub enum OriginalStatus {
    Done,
    DoneButIncomplete,
    NeedsRework,
}

#[apply(camel_input)]
pub struct Verification {
    /// Each item to check.
    pub checklist: List<ChecklistItem, 0, 200>,
    /// What is wrong; by default the failed checklist items.
    pub failed_items: Option<List<FailedItem, 0, 100>>,
    /// Summary in a few sentences.
    pub summary: Text<0, 5000>,
}

#[apply(input)]
pub struct ChecklistItem {
    pub item: Text<1, 1000>,
    pub status: ItemStatus,
    /// A remark.
    pub note: Option<Text<0, 2000>>,
}

#[apply(word)]
pub enum ItemStatus {
    Passed,
    Failed,
    Skipped,
}

#[apply(input)]
pub struct FailedItem {
    pub item: Text<1, 1000>,
    /// What is wrong with it.
    pub issue: Text<1, 2000>,
    /// Why that is wrong.
    pub why: Text<0, 2000>,
}

#[apply(camel_output)]
pub struct ReportVerificationResultOutput {
    pub success: bool,
    /// The verification: TASK-VERIFY-001.
    pub verification_task_id: String,
    pub verification_status: VerificationStatus,
    pub original_task_status: OriginalStatus,
    /// Outcome for the original.
    pub message: String,
    /// The issues, each with its handle.
    pub issues_found: Option<Vec<IssueFound>>,
    /// The tasks created from suggestedActions.
    pub follow_up_tasks_created: Option<Vec<FollowUpCreated>>,
    /// State of the original now: verified, done (unchanged) or rework.
    pub original_task_marked: VerificationVerdict,
    /// Whether tasks that depend on the original can start.
    pub blocker_cleared: bool,
    /// The note shown on the board.
    pub dashboard_update: Option<VerificationUpdate>,
    /// The ticket that asks a person to review: TK-001.
    pub review_ticket_id: Option<String>,
    /// Contradictions within the report, or with work already begun.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    pub answers: Vec<LateAnswer>,
}

#[apply(camel_output)]
pub struct IssueFound {
    /// Its handle: ISSUE-001.
    pub issue_id: String,
    /// What is wrong.
    pub title: String,
    /// The files that the original's last report names.
    pub related_components: Vec<String>,
    /// high if the original needs rework, else medium.
    pub severity: Priority,
}

#[apply(camel_output)]
pub struct FollowUpCreated {
    pub task_id: String,
    pub title: String,
    /// The original: TASK-001.
    pub related_to: String,
    pub priority: String,
}

#[apply(camel_output)]
pub struct VerificationUpdate {
    /// Outcome for the original, in a line.
    pub message: String,
    /// How many issues were found.
    pub issues_count: usize,
    /// How many tasks were created.
    pub follow_up_tasks_count: usize,
}

/// What a verification makes of the task that it verified.
#[apply(word)]
pub enum VerificationVerdict {
    /// It was done as required.
    Verified,
    /// It stays done, with findings.
    Done,
    /// It needs rework.
    Rework,
}

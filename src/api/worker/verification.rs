//! `reportVerificationResult`.

use crate::api::args::{List, Text};
use crate::api::worker::late::LateAnswer;
use crate::api::worker::ticket::Urgency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const REPORT_VERIFICATION_RESULT: &str = "\
Use when: you have done a verification task (TASK-VERIFY-001).
Required: verificationTaskId, originalTaskId, verificationStatus, verification, originalTaskStatus.
Optional: suggestedActions, project_id, request_id.
Next: getNextTask; an original that needs rework is in it again.
Avoid: passed when an item failed; reportTaskDone for the same verification.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportVerificationResultInput {
    /// TASK-VERIFY-001 or a UUID.
    pub verification_task_id: Text<1, 64>,
    /// What it verifies: TASK-001 or a UUID.
    pub original_task_id: Text<1, 64>,
    /// passed, failed, partial or needs-manual-review.
    pub verification_status: VerificationStatus,
    /// What was looked at, and what came of it.
    pub verification: Verification,
    /// done, done_but_incomplete or needs_rework.
    pub original_task_status: OriginalStatus,
    /// Tasks to be made of it, a line each.
    pub suggested_actions: Option<List<Text<1, 1000>, 0, 20>>,
    /// Project id; by default yours.
    #[serde(rename = "project_id")]
    pub project_id: Option<Text<1, 64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerificationStatus {
    Passed,
    Failed,
    Partial,
    NeedsManualReview,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OriginalStatus {
    Done,
    DoneButIncomplete,
    NeedsRework,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verification {
    /// Each thing that was to be looked at.
    pub checklist: List<ChecklistItem, 0, 200>,
    /// What is wrong; default: what failed of the checklist.
    pub failed_items: Option<List<FailedItem, 0, 100>>,
    /// The whole in a few sentences.
    pub summary: Text<0, 5000>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChecklistItem {
    /// What was looked at.
    pub item: Text<1, 1000>,
    /// passed, failed or skipped.
    pub status: ItemStatus,
    /// What there is to say of it.
    pub note: Option<Text<0, 2000>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ItemStatus {
    Passed,
    Failed,
    Skipped,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailedItem {
    /// What was looked at.
    pub item: Text<1, 1000>,
    /// What is wrong with it.
    pub issue: Text<1, 2000>,
    /// Why that is wrong.
    pub why: Text<0, 2000>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportVerificationResultOutput {
    /// true.
    pub success: bool,
    /// The verification: TASK-VERIFY-001.
    pub verification_task_id: String,
    /// As it was reported.
    pub verification_status: VerificationStatus,
    /// As it was reported.
    pub original_task_status: OriginalStatus,
    /// What became of the original.
    pub message: String,
    /// What is wrong, each under a name of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issues_found: Option<Vec<IssueFound>>,
    /// The tasks made of suggestedActions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow_up_tasks_created: Option<Vec<FollowUpCreated>>,
    /// What the original is now: verified, done (as it was) or rework.
    pub original_task_marked: Verdict,
    /// Whether what depends on the original can go on.
    pub blocker_cleared: bool,
    /// What the board tells its people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard_update: Option<VerificationUpdate>,
    /// The ticket by which a person is asked to look: TK-001.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review_ticket_id: Option<String>,
    /// Where the report speaks against itself, or against what has begun.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssueFound {
    /// What it is called: ISSUE-001.
    pub issue_id: String,
    /// What is wrong.
    pub title: String,
    /// The files that the original's last report names.
    pub related_components: Vec<String>,
    /// high when the original is to be done again, else medium.
    pub severity: Urgency,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FollowUpCreated {
    /// What it is called: TASK-002.
    pub task_id: String,
    /// What is to be done.
    pub title: String,
    /// The original: TASK-001.
    pub related_to: String,
    /// critical, high, medium or low.
    pub priority: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationUpdate {
    /// What became of the original, in a line.
    pub message: String,
    /// How many issues were found.
    pub issues_count: usize,
    /// How many tasks were made.
    pub follow_up_tasks_count: usize,
}

/// What a verification makes of the task that it verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was done as it was to be.
    Verified,
    /// It stays done; not all of it was found good.
    Done,
    /// It is to be done again.
    Rework,
}

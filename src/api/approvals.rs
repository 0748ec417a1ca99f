//! Permissions that executors ask for: their list, and the answers.

use provost_actors::event::Action;
use provost_actors::executor::AgentQuestion;
pub use provost_actors::journal::ApprovalStatus;

use crate::api::prelude::*;

pub const LIST_APPROVALS: &str = "\
Use when: an attempt's phase is waiting with waiting_on = approval.
Next: answer with an approval_id.
Avoid: letting one wait: it is denied at expires_at.";

/// Which approvals to list.
#[apply(word)]
#[derive(Default)]
pub enum ApprovalsAsked {
    /// Those that wait for an answer.
    #[default]
    Pending,
    /// Those that were answered or withdrawn too.
    All,
}

#[apply(input)]
pub struct ListApprovalsInput {
    /// Only those of this attempt, a UUID; all attempts' if left out.
    pub attempt_id: Option<AttemptId>,
    /// pending: those that wait for an answer. all: decided ones too.
    #[serde(default)]
    pub status: ApprovalsAsked,
    pub limit: Limit<20, 100>,
    pub cursor: Option<Text<1, 512>>,
}

#[apply(output)]
pub struct ListApprovalsOutput {
    /// The approvals, newest first.
    pub approvals: Vec<ApprovalSummary>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

#[apply(output)]
pub struct ApprovalSummary {
    pub approval_id: ApprovalId,
    /// The attempt that waits, a UUID.
    pub attempt_id: AttemptId,
    /// Its process, a UUID.
    pub execution_process_id: ProcessId,
    /// pending, approved, denied or withdrawn (its process waits no longer).
    pub status: ApprovalStatus,
    /// The requested action in a line.
    pub text: String,
    /// Tool that it wants to use.
    pub tool_name: String,
    /// Id of the tool call in the log; null if unknown.
    pub tool_call_id: Option<String>,
    /// What the tool would do: the command; path and diff or content; input. `truncated` if cut.
    #[schemars(with = "Map<String, Value>")]
    pub action: Action,
    /// Of a question its options, and is_open if another text will do: give answer, no decision.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub question: Option<AgentQuestion>,
    pub reason: Option<String>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it is denied without an answer; null if never.
    pub expires_at: Option<Timestamp>,
    /// When it was decided; null while it is pending.
    pub decided_at: Option<Timestamp>,
}

pub const RESPOND_APPROVAL: &str = "\
Use when: you have decided on a permission that an agent asks for.
Optional: reason (deny), request_id.
Next: wait_for_attempts with the attempt's id.
Avoid: approving without reading; a second decision on the same approval, which is refused.";

pub const RESPOND_RULES: &[FieldRule] = &[
    FieldRule::AnyOf(&["decision", "answer"]),
    FieldRule::Apart(&["decision", "reason"], &["answer"]),
    FieldRule::Only(&["reason"], "decision", &["deny"]),
];

/// What to answer.
#[apply(word)]
pub enum ApprovalDecision {
    /// This once.
    Approve,
    Deny,
}

#[apply(input)]
pub struct RespondApprovalInput {
    /// The approval, a UUID from list_inbox.
    pub approval_id: ApprovalId,
    /// approve: this once. deny: the agent continues without it.
    pub decision: Option<ApprovalDecision>,
    /// Why it is denied; the agent sees it if its protocol can carry it. Only with deny.
    pub reason: Option<Text<1, 2000>>,
    /// To a question, instead of a decision.
    pub answer: Option<Text<1, 20_000>>,
}

#[apply(output)]
pub struct RespondApprovalOutput {
    pub approval_id: ApprovalId,
    /// The attempt that continues, a UUID.
    pub attempt_id: AttemptId,
    /// approved or denied; of a question, answered.
    pub status: ApprovalStatus,
    pub reason: Option<String>,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
}

tools! {
    ApprovalTools:
    read list_approvals(ListApprovalsInput) -> ListApprovalsOutput;
    change respond_approval(RespondApprovalInput) -> RespondApprovalOutput;
}

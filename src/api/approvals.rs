//! Permissions that executors ask for: the part of `list_inbox` and `answer` that concerns them.

use provost_actors::event::Action;
use provost_actors::executor::AgentQuestion;
pub use provost_actors::journal::ApprovalStatus;

use crate::api::prelude::*;

/// Which approvals `list_inbox` reads.
pub struct ListApprovalsInput {
    /// Only those of this attempt.
    pub attempt_id: Option<AttemptId>,
    /// Also those that are approved, denied or withdrawn.
    pub is_all: bool,
    pub limit: usize,
    /// Only approvals asked for before this one: the page's cursor.
    pub before: Option<ApprovalId>,
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

/// What to answer.
#[apply(word)]
pub enum ApprovalDecision {
    /// This once.
    Approve,
    Deny,
}

/// A decision on an approval, as `answer` passes it on. Either `decision` or `answer` is set.
pub struct RespondApprovalInput {
    pub approval_id: ApprovalId,
    pub decision: Option<ApprovalDecision>,
    pub reason: Option<Text<1, 2000>>,
    /// The answer to an agent's question; it takes the place of a decision.
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

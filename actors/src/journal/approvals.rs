//! The records of the permissions that executors ask for.
//!
//! ```text
//!  ask ─▶ Pending ─decide─▶ Approved | Denied      by a person, by the orchestrator, or when it expires
//!             └────────▶ Withdrawn                 nothing waits for it any more; `ask` may revive it
//! ```

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::executor::{Request, Verdict};
use crate::ids::{ApprovalId, AttemptId, ProcessId};
use crate::refusal::{Code, Refusal};

use super::{Idempotent, Key};

/// A permission that an executor asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub approval_id: ApprovalId,
    pub attempt_id: AttemptId,
    /// The process that asked.
    pub process_id: ProcessId,
    pub request: Request,
    /// It concerns the attempt as a whole, such as access to a network destination: it outlives the process
    /// that asked for it, and that process does not wait for it.
    #[serde(default)]
    pub of_attempt: bool,
    pub status: ApprovalStatus,
    /// The reason of a denial, or the text of an answer.
    pub reason: Option<String>,
    pub asked_at: Timestamp,
    /// When it is denied unless it has been decided; `None`: it never expires.
    pub expires_at: Option<Timestamp>,
    pub decided_at: Option<Timestamp>,
}

/// Whether an approval waits, and how it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Denied,
    /// The executor no longer waits for it.
    Withdrawn,
}

impl fmt::Display for ApprovalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What ends a pending approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Verdict(Verdict),
    Withdrawn,
}

impl Decision {
    /// The status that the approval gets.
    pub fn status(&self) -> ApprovalStatus {
        match self {
            Self::Verdict(Verdict::Approve | Verdict::Answer { .. }) => ApprovalStatus::Approved,
            Self::Verdict(Verdict::Deny { .. }) => ApprovalStatus::Denied,
            Self::Withdrawn => ApprovalStatus::Withdrawn,
        }
    }

    /// The text that is kept: of a denial, or of an answer.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Verdict(Verdict::Deny { reason } | Verdict::Answer { text: reason }) => {
                Some(reason)
            }
            _ => None,
        }
    }
}

impl Approval {
    /// The verdict to send to the executor; `None` while it is pending, and for a withdrawn one.
    pub fn verdict(&self) -> Option<Verdict> {
        match self.status {
            // The text of an answer is kept as the reason.
            ApprovalStatus::Approved if self.request.question.is_some() => {
                Some(Verdict::Answer { text: self.reason.clone().unwrap_or_default() })
            }
            ApprovalStatus::Approved => Some(Verdict::Approve),
            ApprovalStatus::Denied => {
                Some(Verdict::Deny { reason: self.reason.clone().unwrap_or_default() })
            }
            ApprovalStatus::Pending | ApprovalStatus::Withdrawn => None,
        }
    }

    /// Whether the decision is still to be written; `false`: the same decision was, or a withdrawal comes
    /// too late.
    ///
    /// # Errors
    /// `idempotency_conflict`: another decision was taken.
    pub fn admits(&self, decision: &Decision) -> Result<bool, Refusal> {
        if self.status == ApprovalStatus::Pending {
            return Ok(true);
        }
        // A withdrawal has no effect after a verdict; an answer is another decision if its text differs.
        let is_same_answer = !matches!(decision, Decision::Verdict(Verdict::Answer { text })
            if self.reason.as_ref() != Some(text));
        if self.status == decision.status() && is_same_answer || *decision == Decision::Withdrawn {
            return Ok(false);
        }
        let message = match (self.status, &self.reason) {
            (ApprovalStatus::Withdrawn, _) => {
                "the executor no longer waits for this answer".to_owned()
            }
            (status, Some(reason)) => format!("it has been {status} already ({reason})"),
            (status, None) => format!("it has been {status} already"),
        };
        Err(Refusal::new(Code::IdempotencyConflict, message)
            .hint("Call list_inbox instead. This one has been decided.")
            .detail("status", self.status.to_string()))
    }
}

/// The rows of approvals.
#[async_trait]
pub trait Approvals {
    /// Writes a request, and returns the one on file. A request with the same key is not written again: for
    /// a request of a process the key is unique in the process; for one of an attempt, in all attempts of
    /// the project. A withdrawn one of an attempt is asked for again.
    async fn ask(&self, approval: &Approval) -> Result<Approval, Refusal>;

    /// The keys of the requests of attempts that were approved in the project of this attempt.
    async fn approved_of_project(&self, attempt: AttemptId) -> Result<Vec<String>, Refusal>;

    /// An approval by its id; `None`: there is none.
    async fn approval(&self, approval: ApprovalId) -> Result<Option<Approval>, Refusal>;

    /// The approvals of a process, oldest first.
    async fn approvals_of(&self, process: ProcessId) -> Result<Vec<Approval>, Refusal>;

    /// Withdraws the pending approvals that concern the attempt as a whole.
    async fn withdraw_of_attempt(&self, attempt: AttemptId) -> Result<(), Refusal>;

    /// Decides a pending approval, and keeps the answer under the key. Refused if another decision was
    /// taken.
    async fn decide(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Idempotent<Approval>, Refusal>;
}

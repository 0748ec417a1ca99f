//! The records of the permissions that executors ask for.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::executor::{Request, Verdict};
use crate::ids::{ApprovalId, AttemptId, ProcessId};
use crate::refusal::{Code, Refusal};

use super::{Key, Once};

/// A permission that an executor asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub approval_id: ApprovalId,
    pub attempt_id: AttemptId,
    pub process_id: ProcessId,
    pub request: Request,
    /// It is about the attempt: it outlives the process that asked, which does not wait for it.
    #[serde(default)]
    pub of_attempt: bool,
    pub status: ApprovalStatus,
    pub reason: Option<String>,
    pub asked_at: Timestamp,
    /// It is denied then, unless it is decided before.
    pub expires_at: Option<Timestamp>,
    pub decided_at: Option<Timestamp>,
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Verdict(Verdict),
    Withdrawn,
}

impl Decision {
    pub fn status(&self) -> ApprovalStatus {
        match self {
            Self::Verdict(Verdict::Approve | Verdict::Answer { .. }) => ApprovalStatus::Approved,
            Self::Verdict(Verdict::Deny { .. }) => ApprovalStatus::Denied,
            Self::Withdrawn => ApprovalStatus::Withdrawn,
        }
    }

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
    /// The verdict for the executor, once there is one.
    pub fn verdict(&self) -> Option<Verdict> {
        match self.status {
            // An answer is kept as the reason.
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

    /// Whether the decision is still to be written; `false`: it was.
    ///
    /// # Errors
    /// Another decision was taken.
    pub fn admits(&self, decision: &Decision) -> Result<bool, Refusal> {
        if self.status == ApprovalStatus::Pending {
            return Ok(true);
        }
        // A withdrawal has no effect once there is a verdict.
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

#[async_trait]
pub trait Approvals {
    /// Writes a request, unless one with its key is on file: of the process, or of the attempt for
    /// a request of the attempt, for which the one of another attempt of its project counts too.
    /// Returns the one on file. One of an attempt that was withdrawn is asked anew.
    async fn ask(&self, approval: &Approval) -> Result<Approval, Refusal>;

    /// The keys of what was approved for attempts themselves, in the project of this one.
    async fn approved_of_project(&self, attempt: AttemptId) -> Result<Vec<String>, Refusal>;

    async fn approval(&self, approval: ApprovalId) -> Result<Option<Approval>, Refusal>;

    /// Oldest first.
    async fn approvals_of(&self, process: ProcessId) -> Result<Vec<Approval>, Refusal>;

    /// Withdraws the pending ones that are of the attempt itself.
    async fn withdraw_of_attempt(&self, attempt: AttemptId) -> Result<(), Refusal>;

    /// Decides a pending approval, and keeps the answer. Another decision is refused.
    async fn decide(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Once<Approval>, Refusal>;
}

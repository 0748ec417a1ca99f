//! The records of the permissions that executors ask for.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::event::Timestamp;
use crate::executor::{Request, Verdict};
use crate::ids::{ApprovalId, AttemptId, ProcessId};
use crate::refusal::{Code, Refusal};

use super::{Key, Once};

/// A permission that an executor asked for, and what became of that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub approval_id: ApprovalId,
    pub attempt_id: AttemptId,
    pub process_id: ProcessId,
    pub request: Request,
    pub status: ApprovalStatus,
    /// Why it was denied.
    pub reason: Option<String>,
    pub asked_at: Timestamp,
    /// It is denied then, if there is no verdict.
    pub expires_at: Option<Timestamp>,
    pub decided_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Denied,
    /// The executor waits for it no longer.
    Withdrawn,
}

impl ApprovalStatus {
    /// The spelling on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// What becomes of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Verdict(Verdict),
    Withdrawn,
}

impl Decision {
    /// How the approval stands after it.
    #[must_use]
    pub fn status(&self) -> ApprovalStatus {
        match self {
            Self::Verdict(Verdict::Approve) => ApprovalStatus::Approved,
            Self::Verdict(Verdict::Deny { .. }) => ApprovalStatus::Denied,
            Self::Withdrawn => ApprovalStatus::Withdrawn,
        }
    }

    /// Why it is denied.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Verdict(Verdict::Deny { reason }) => Some(reason),
            _ => None,
        }
    }
}

impl Approval {
    /// The verdict for the executor, once there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        match self.status {
            ApprovalStatus::Approved => Some(Verdict::Approve),
            ApprovalStatus::Denied => {
                Some(Verdict::Deny { reason: self.reason.clone().unwrap_or_default() })
            }
            ApprovalStatus::Pending | ApprovalStatus::Withdrawn => None,
        }
    }

    /// Whether a decision may be taken, or has been. `Err`: another one was.
    pub fn admits(&self, decision: &Decision) -> Result<bool, Refusal> {
        if self.status == ApprovalStatus::Pending {
            return Ok(true);
        }
        // A withdrawal comes to nothing once there is a verdict.
        if self.status == decision.status() || *decision == Decision::Withdrawn {
            return Ok(false);
        }
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})"));
        let message = match self.status {
            ApprovalStatus::Withdrawn => "the executor waits for this answer no longer".to_owned(),
            status => {
                format!("it has been {} already{}", status.as_str(), reason.unwrap_or_default())
            }
        };
        Err(Refusal::new(Code::IdempotencyConflict, message)
            .hint("Call list_approvals with status = pending: this one has been decided.")
            .detail("status", self.status.as_str()))
    }
}

/// The permissions that executors ask for.
#[async_trait]
pub trait Approvals {
    /// Writes that an executor asks for a permission. If it is there already, by process
    /// and key of the request, this gives what is written.
    async fn ask(&self, approval: &Approval) -> Result<Approval, Refusal>;

    async fn approval(&self, approval: ApprovalId) -> Result<Option<Approval>, Refusal>;

    /// All that a process has asked for, oldest first.
    async fn approvals_of(&self, process: ProcessId) -> Result<Vec<Approval>, Refusal>;

    /// Writes what becomes of an approval that is pending, and the answer. The same decision
    /// again changes nothing; another one is refused.
    async fn decide(
        &self,
        key: Option<&Key>,
        approval: ApprovalId,
        decision: &Decision,
    ) -> Result<Once<Approval>, Refusal>;
}

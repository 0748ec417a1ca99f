//! Permissions that executors ask for: listed, and answered.

use async_trait::async_trait;
use provost_actors::event::{Action, Timestamp};
use provost_actors::ids::{ApprovalId, AttemptId, ProcessId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::args::{Id, Limit, Text, Time};
use crate::api::field_rules::{Case, FieldRule};
use crate::api::{Key, Once, Refusable, Session};

pub const LIST_APPROVALS: &str = "\
Use when: an attempt's phase is waiting with waiting_on = approval.
Required: none.
Optional: attempt_id, status (default pending), limit, cursor.
Next: respond_approval with an approval_id.
Avoid: letting one wait: it is denied when expires_at has come.";

/// Which approvals to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalsAsked {
    /// Those that wait for an answer.
    #[default]
    Pending,
    /// Those that were answered or withdrawn too.
    All,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListApprovalsInput {
    /// Only those of this attempt, a UUID; all attempts' if left out.
    #[schemars(with = "Option<Id>")]
    pub attempt_id: Option<AttemptId>,
    /// pending: those that wait for an answer. all: also those that do no longer.
    #[serde(default)]
    pub status: ApprovalsAsked,
    /// Most approvals to return; more than 100 counts as 100.
    #[serde(default)]
    pub limit: Limit<20, 100>,
    /// Older page: the `next_cursor` of the last answer, unchanged.
    pub cursor: Option<Text<1, 512>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListApprovalsOutput {
    /// The approvals, newest first.
    pub approvals: Vec<ApprovalSummary>,
    /// Give it as cursor to get the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

/// How an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Denied,
    Withdrawn,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalSummary {
    /// Id of the approval, a UUID.
    #[schemars(with = "String")]
    pub approval_id: ApprovalId,
    /// The attempt that waits, a UUID.
    #[schemars(with = "String")]
    pub attempt_id: AttemptId,
    /// Its process, a UUID.
    #[schemars(with = "String")]
    pub execution_process_id: ProcessId,
    /// pending, approved, denied or withdrawn (its process waits no longer).
    pub status: ApprovalStatus,
    /// What it wants to do, in a line.
    pub text: String,
    /// The tool that it wants to use.
    pub tool_name: String,
    /// Id of the tool call in the log; null if unknown.
    pub tool_call_id: Option<String>,
    /// What the tool would do: the command; path and diff or content; input. `truncated` if cut.
    #[schemars(with = "Map<String, Value>")]
    pub action: Action,
    /// Why it was denied; null unless it was.
    pub reason: Option<String>,
    /// When it was asked for, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub asked_at: Timestamp,
    /// When it is denied if nobody answers, RFC 3339 UTC; null if never.
    #[schemars(with = "Option<Time>")]
    pub expires_at: Option<Timestamp>,
    /// When it was decided, RFC 3339 UTC; null while it is pending.
    #[schemars(with = "Option<Time>")]
    pub decided_at: Option<Timestamp>,
}

pub const RESPOND_APPROVAL: &str = "\
Use when: you have decided on what an agent asks for.
Required: approval_id, decision.
Optional: reason (deny), request_id.
Next: wait_for_attempts with the attempt's id.
Avoid: approving what you have not read; another decision on the same approval, it is refused.";

pub const RESPOND_RULES: &[FieldRule] = &[FieldRule::ByValue(
    "decision",
    &[
        Case { value: "approve", requires: &[], forbids: &["reason"] },
        Case { value: "deny", requires: &[], forbids: &[] },
    ],
)];

/// What to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// This once.
    Approve,
    Deny,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RespondApprovalInput {
    /// The approval, a UUID from list_approvals.
    #[schemars(with = "Id")]
    pub approval_id: ApprovalId,
    /// approve: this once. deny: the agent goes on without.
    pub decision: ApprovalDecision,
    /// Why it is denied, told to the agent where its protocol can. Only with deny.
    pub reason: Option<Text<1, 2000>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RespondApprovalOutput {
    /// Id of the approval, a UUID.
    #[schemars(with = "String")]
    pub approval_id: ApprovalId,
    /// The attempt that goes on, a UUID.
    #[schemars(with = "String")]
    pub attempt_id: AttemptId,
    /// approved or denied.
    pub status: ApprovalStatus,
    /// Why it was denied; null unless it was.
    pub reason: Option<String>,
    /// When it was decided, RFC 3339 UTC.
    #[schemars(with = "Option<Time>")]
    pub decided_at: Option<Timestamp>,
}

/// What the tools about approvals ask of the daemon.
#[async_trait]
pub trait ApprovalTools: Send + Sync {
    async fn list_approvals(
        &self,
        session: &Session,
        input: ListApprovalsInput,
    ) -> Refusable<ListApprovalsOutput>;

    async fn respond_approval(
        &self,
        session: &Session,
        key: Option<Key>,
        input: RespondApprovalInput,
    ) -> Refusable<Once<RespondApprovalOutput>>;
}

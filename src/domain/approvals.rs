//! Approvals and questions of running agents: listed from the store, answered through the owner of the
//! attempt. `list_inbox` and `answer` (`decisions.rs`) call this file; it has no tools of its own.

use provost_actors::attempt::host_asked_for;
use provost_actors::executor::{AgentQuestion, Verdict};
use provost_actors::gateway;
use provost_actors::ids::ApprovalId;
use provost_actors::journal::{self, Approval, Approvals};
use provost_actors::text::cut;

use super::{Domain, answered};
use crate::api::approvals::{
    ApprovalDecision, ApprovalSummary, ListApprovalsInput, RespondApprovalInput,
    RespondApprovalOutput,
};
use crate::api::{Caller, Code, Idempotent, Key, Refusable, Refusal};
use crate::store::Page;

impl Domain {
    /// The approvals of one attempt or of all, newest first: the pending ones alone unless `is_all`. A
    /// page can be shorter than `limit` because of [`PAGE_MAX`]; `has_more` is true then.
    pub(super) async fn list_approvals(
        &self,
        input: ListApprovalsInput,
    ) -> Refusable<Page<ApprovalSummary>> {
        let ListApprovalsInput { attempt_id, is_all, limit, before } = input;
        if let Some(attempt) = attempt_id {
            self.store.status(attempt).await?;
        }
        let status = (!is_all).then_some(journal::ApprovalStatus::Pending);
        let page = fitting(self.store.approvals(attempt_id, status, before, limit).await?);
        let items = page.items.into_iter().map(summary).collect();
        Ok(Page { items, has_more: page.has_more })
    }

    /// Answers an approval with a decision, or a question of an agent with a text. Exactly one of the two
    /// is given. Only a person may answer what trusts a repository's commands or opens a network
    /// destination.
    pub(super) async fn respond_approval(
        &self,
        caller: &Caller,
        key: Option<Key>,
        input: RespondApprovalInput,
    ) -> Refusable<Idempotent<RespondApprovalOutput>> {
        let reason = input.reason.map_or_else(|| "no reason was given".to_owned(), Into::into);
        let id = input.approval_id;
        let verdict = match (input.decision, input.answer) {
            (Some(ApprovalDecision::Deny), None) => Verdict::Deny { reason },
            (Some(ApprovalDecision::Approve), None) => Verdict::Approve,
            (None, Some(text)) => Verdict::Answer { text: text.into() },
            (None, None) | (Some(_), Some(_)) => return Err(undecided(id)),
        };
        let (gateway, world) = (&self.gateway, &self.world);
        self.fits(id, &verdict).await?;
        self.trust_by_approval(caller, id, &verdict).await?;
        self.host_by_approval(caller, id).await?;
        let answer = gateway::respond(gateway, world, key, id, verdict).await?;
        Ok(answered(answer, |approval| RespondApprovalOutput {
            approval_id: approval.approval_id,
            attempt_id: approval.attempt_id,
            status: approval.status,
            reason: approval.reason,
            decided_at: approval.decided_at,
        }))
    }

    /// Refuses an answer that does not fit the request: a permission takes a decision; a question takes a
    /// text, and one of its options unless it is open.
    async fn fits(&self, id: ApprovalId, verdict: &Verdict) -> Result<(), Refusal> {
        let approval = self.store.approval(id).await?;
        let question = approval.and_then(|approval| approval.request.question);
        let refuse = |message: String, path: &str, hint: String| {
            Err(Refusal::new(Code::InvalidArgument, message).hint(hint).detail("path", path))
        };
        match (question, verdict) {
            (None, Verdict::Answer { .. }) => refuse(
                format!("{id} asks for permission: it takes a decision"),
                "answer",
                "Call the tool again with decision instead of answer.".to_owned(),
            ),
            (Some(question), Verdict::Approve) => refuse(
                format!("{id} is a question: nothing is chosen for whoever answers it"),
                "decision",
                format!("Call the tool again with answer instead of decision{}.", among(&question)),
            ),
            (Some(question), Verdict::Answer { text })
                if !question.is_open && !question.options.contains(text) =>
            {
                refuse(
                    format!("{text:?} is no answer that {id} can take"),
                    "answer",
                    format!("Call the tool again with another answer{}.", among(&question)),
                )
            }
            _ => Ok(()),
        }
    }

    /// Refuses every answer of a caller that is not a person to a request for a network destination: to
    /// allow one widens the sandbox of the whole project.
    async fn host_by_approval(&self, caller: &Caller, id: ApprovalId) -> Result<(), Refusal> {
        let approval = self.store.approval(id).await?;
        let host = approval.as_ref().and_then(|approval| host_asked_for(&approval.request));
        match host.filter(|_| !caller.is_person) {
            None => Ok(()),
            Some(host) => {
                let message = format!("only a person can answer a request for {host}");
                Err(Refusal::new(Code::NotPermitted, message)
                    .hint("Ask a person to answer it, with `provost approvals` or on the page."))
            }
        }
    }
}

fn undecided(id: ApprovalId) -> Refusal {
    Refusal::new(Code::AmbiguousTarget, format!("{id} takes either a decision or an answer"))
        .hint(
            "Call the tool again with decision = \"approve\" or \"deny\", or with answer if list_inbox \
             shows a question.",
        )
        .detail("path", "decision")
}

/// The answers that a question names.
fn among(question: &AgentQuestion) -> String {
    match question.options.as_slice() {
        [] => String::new(),
        options => format!(", one of {}", options.join(", ")),
    }
}

/// Longest text of a request in a list, in characters; `action` has the request whole. A request for
/// trust that is longer can't be approved from a list, which does not show all of it
/// (`repo_settings.rs`).
pub(super) const TEXT_MAX: usize = 1000;

/// A page ends after the approval with which its actions reach this many bytes of JSON.
const PAGE_MAX: usize = 128 * 1024;

/// An approval as lists show it: the text is cut to [`TEXT_MAX`], the action is bounded.
pub(super) fn summary(approval: Approval) -> ApprovalSummary {
    let request = approval.request;
    ApprovalSummary {
        approval_id: approval.approval_id,
        attempt_id: approval.attempt_id,
        execution_process_id: approval.process_id,
        status: approval.status,
        text: cut(request.text, TEXT_MAX),
        tool_name: request.tool_name,
        tool_call_id: request.tool_call_id,
        action: request.action.bounded(),
        question: request.question,
        reason: approval.reason,
        asked_at: approval.asked_at,
        expires_at: approval.expires_at,
        decided_at: approval.decided_at,
    }
}

/// Cuts a page to the approvals that begin within [`PAGE_MAX`]: at least one, so that a large one blocks
/// no page.
fn fitting(mut page: Page<Approval>) -> Page<Approval> {
    let mut bytes = 0;
    let fits = |approval: &Approval| {
        let before = bytes;
        bytes += serde_json::to_vec(&approval.request.action).map_or(0, |action| action.len());
        before < PAGE_MAX
    };
    let count = page.items.iter().map(fits).take_while(|fits| *fits).count();
    page.has_more |= count < page.items.len();
    page.items.truncate(count);
    page
}

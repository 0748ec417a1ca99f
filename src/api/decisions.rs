//! What waits for a decision: permissions that agents ask for, and workers' questions, tickets and alerts.
//! One tool lists all of them, and one tool answers any of them.

use super::approvals::{
    ApprovalDecision, ApprovalSummary, RespondApprovalInput, RespondApprovalOutput,
};
use super::worker::inbox::{
    AnswerQuestionInput, AnswerQuestionOutput, QuestionSummary, QuestionsAsked,
};
use crate::api::prelude::*;

/// The description of `list_inbox`, by which a model decides whether to call it.
pub const LIST_INBOX: &str = "\
Use when: an attempt's waiting_on is approval, or workers may have asked or raised an alert.
Next: answer with approval_id or question_id.
Avoid: letting an approval wait until expires_at, when it is denied.";

/// `attempt_id` lists approvals and `project_id` lists questions, so they exclude each other.
pub const INBOX_RULES: &[FieldRule] = &[
    FieldRule::Apart(&["attempt_id"], &["project_id"]),
    FieldRule::Only(&["attempt_id"], "status", &["open", "all"]),
];

#[apply(input)]
pub struct ListInboxInput {
    /// Only approvals of this attempt, a UUID.
    pub attempt_id: Option<AttemptId>,
    /// Only what workers of this project, a UUID, ask.
    pub project_id: Option<ProjectId>,
    /// open (default); all; reports (observations, issues and test failures: no answer needed).
    #[serde(default)]
    pub status: QuestionsAsked,
    pub limit: Limit<20, 100>,
    pub cursor: Option<Text<1, 512>>,
}

#[apply(output)]
pub struct ListInboxOutput {
    /// Permissions that agents ask for, newest first; all of them come before the questions.
    pub approvals: Vec<ApprovalSummary>,
    /// What workers ask, newest first.
    pub questions: Vec<QuestionSummary>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

/// The description of `answer`, by which a model decides whether to call it.
pub const ANSWER: &str = "\
Use when: you have decided on what list_inbox shows.
Required: approval_id and decision (answer if it is a question), or question_id and answer.
Optional: reason (deny), project_id (question_id), request_id.
Next: wait_for_attempts; the agent or worker gets it automatically.
Avoid: approving without reading; an answer for one case only: the same question gets it from now on.";

/// Which fields of `answer` go with an approval, and which with a question.
pub const ANSWER_RULES: &[FieldRule] = &[
    FieldRule::OneTarget("approval_id", "question_id"),
    FieldRule::Apart(&["approval_id"], &["project_id"]),
    FieldRule::Apart(&["question_id"], &["decision", "reason"]),
    FieldRule::Together(&["question_id"], &["answer"]),
    FieldRule::AnyOf(&["decision", "answer"]),
    FieldRule::Apart(&["decision", "reason"], &["answer"]),
    FieldRule::Only(&["reason"], "decision", &["deny"]),
];

#[apply(input)]
pub struct AnswerInput {
    /// The approval, a UUID from list_inbox.
    pub approval_id: Option<ApprovalId>,
    /// approve: this once. deny: the agent continues without it.
    pub decision: Option<ApprovalDecision>,
    /// Why it is denied; the agent sees it if its protocol can carry it.
    pub reason: Option<Text<1, 2000>>,
    /// UUID from list_inbox, or Q-001 or TK-001.
    pub question_id: Option<Text<1, 64>>,
    /// The answer; of a ticket, how it was resolved. Of an agent's question one of its options.
    pub answer: Option<Text<1, 20_000>>,
    /// Project, a UUID, of Q-001 or TK-001, where several have one.
    pub project_id: Option<ProjectId>,
}

/// What an answer decides: an approval, or a question or ticket of a worker.
pub enum Decided {
    Approval(RespondApprovalInput),
    Question(AnswerQuestionInput),
}

impl TryFrom<AnswerInput> for Decided {
    type Error = Refusal;

    fn try_from(input: AnswerInput) -> Result<Self, Refusal> {
        let AnswerInput { approval_id, decision, reason, question_id, answer, project_id } = input;
        match (approval_id, decision, question_id, answer) {
            (Some(approval_id), decision, None, answer) => {
                Ok(Self::Approval(RespondApprovalInput { approval_id, decision, reason, answer }))
            }
            (None, None, Some(question_id), Some(answer)) => {
                Ok(Self::Question(AnswerQuestionInput { question_id, answer, project_id }))
            }
            // `ANSWER_RULES` refuse such a call before.
            _ => Err(Refusal::new(
                Code::AmbiguousTarget,
                "answer takes approval_id and decision, or question_id and answer",
            )),
        }
    }
}

#[apply(data)]
#[serde(untagged)]
pub enum AnswerOutput {
    Approval(RespondApprovalOutput),
    Question(AnswerQuestionOutput),
}

tools! {
    DecisionTools:
    read list_inbox(ListInboxInput) -> ListInboxOutput;
    change answer(AnswerInput) -> AnswerOutput;
}

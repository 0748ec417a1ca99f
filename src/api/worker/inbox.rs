//! The inbox of what workers ask, which `list_inbox` and `answer` are the tools of: `list_questions`
//! and `answer_question` are their former names.

use crate::api::prelude::*;

pub const LIST_QUESTIONS: &str = "\
Use when: workers may have asked what the plan does not answer, or raised an alert.
Next: answer with question_id.
Avoid: answering without reading context.";

pub const ANSWER_QUESTION: &str = "\
Use when: you have decided on a question or a ticket that list_inbox shows.
Next: list_inbox for the rest. The worker gets the answer automatically.
Avoid: answers for one case only: the same question gets this answer from now on.";

/// Which to list.
#[apply(word)]
#[derive(Default)]
pub enum QuestionsAsked {
    #[default]
    Open,
    All,
    // Reports that need no answer.
    Reports,
}

#[apply(input)]
pub struct ListQuestionsInput {
    /// Project, a UUID; all projects by default.
    pub project_id: Option<ProjectId>,
    /// open (default); all; reports (observations, issues and test failures: no answer needed).
    #[serde(default)]
    pub status: QuestionsAsked,
    pub limit: Limit<50, 200>,
    pub cursor: Option<Text<1, 64>>,
}

#[apply(output)]
pub struct ListQuestionsOutput {
    /// Newest first.
    pub questions: Vec<QuestionSummary>,
    pub next_cursor: Option<String>,
    pub has_more: bool,
}

/// What kind of thing waits.
#[apply(word)]
pub enum InboxKind {
    Question,
    Ticket,
    Blocker,
    Alert,
    Observation,
    Issue,
    Failure,
}

/// Whether it still waits.
#[apply(word)]
pub enum QuestionStatus {
    Open,
    // An executor answered it, and no person has confirmed that.
    Unruled,
    Answered,
    // It needs no answer.
    Noted,
}

#[apply(output)]
pub struct QuestionSummary {
    /// A UUID.
    pub question_id: String,
    /// Q-001, TK-001; of reports OBS-001, ISSUE-001, FAIL-001.
    pub handle: String,
    /// Its project.
    pub project_id: String,
    /// question, ticket, blocker, alert; of reports observation, issue, failure.
    pub kind: InboxKind,
    /// open; unruled (an executor answered it; your answer replaces that); answered; of reports noted.
    pub status: QuestionStatus,
    pub priority: Priority,
    /// What is asked.
    pub question: String,
    /// What the worker sent with it, as JSON.
    pub context: Option<String>,
    /// Its task: TASK-001.
    pub task_id: Option<String>,
    pub answer: Option<String>,
    /// Who answered.
    pub answered_by: Option<String>,
    /// When it was asked.
    pub asked_at: Timestamp,
}

#[apply(input)]
pub struct AnswerQuestionInput {
    /// UUID from list_inbox, or Q-001 or TK-001.
    pub question_id: Text<1, 64>,
    /// The answer; of a ticket, how it was resolved.
    pub answer: Text<1, 20_000>,
    /// Project of Q-001 or TK-001, where several have one.
    pub project_id: Option<ProjectId>,
}

#[apply(output)]
pub struct AnswerQuestionOutput {
    /// A UUID.
    pub question_id: String,
    /// Q-001 or TK-001.
    pub handle: String,
    /// answered.
    pub status: QuestionStatus,
}

tools! {
    InboxTools:
    read list_questions(ListQuestionsInput) -> ListQuestionsOutput;
    change answer_question(AnswerQuestionInput) -> AnswerQuestionOutput;
}

//! What workers ask: the part of `list_inbox` and `answer` that concerns it.

use crate::api::prelude::*;

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

/// Which questions and tickets `list_inbox` reads.
pub struct ListQuestionsInput {
    /// Only those of this project; `None`: of all.
    pub project_id: Option<ProjectId>,
    pub status: QuestionsAsked,
    pub limit: usize,
    /// Only those with a smaller id than this: the page's cursor.
    pub before: Option<String>,
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
    // An executor answered it, and no ruling has confirmed or replaced the answer.
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

/// The answer to a question or ticket, as `answer` passes it on.
pub struct AnswerQuestionInput {
    /// A UUID, or Q-001 or TK-001.
    pub question_id: Text<1, 64>,
    pub answer: Text<1, 20_000>,
    /// The project of a handle that several projects have.
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

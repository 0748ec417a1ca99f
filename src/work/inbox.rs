//! `list_questions` and `answer_question`: what waits for the orchestrator or a person.

use provost_actors::event::Timestamp;
use provost_actors::ids::ProjectId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ticket::Urgency;
use crate::args::{Id, Limit, Text, Time};

pub const LIST_QUESTIONS: &str = "\
Use when: workers may have asked what the plan does not answer, or raised an alert.
Required: nothing.
Optional: project_id, status (open, all), limit, cursor.
Next: answer_question with question_id.
Avoid: answering without reading context.";

pub const ANSWER_QUESTION: &str = "\
Use when: you have decided on a question or a ticket that list_questions shows.
Required: question_id, answer.
Optional: project_id (for Q-001 and TK-001 where there are several projects), request_id.
Next: list_questions for the rest. The worker is told by itself.
Avoid: answers that hold for one case only: the same question is answered by it from now on.";

/// Which to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionsAsked {
    #[default]
    Open,
    All,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuestionsInput {
    /// Project, a UUID; all projects by default.
    #[schemars(with = "Option<Id>")]
    pub project_id: Option<ProjectId>,
    /// open (default) or all.
    #[serde(default)]
    pub status: QuestionsAsked,
    /// Most to return: 50 by default, at most 200.
    #[serde(default)]
    pub limit: Limit<50, 200>,
    /// next_cursor of the page before.
    pub cursor: Option<Text<1, 64>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListQuestionsOutput {
    /// Questions, tickets and alerts, newest first.
    pub questions: Vec<QuestionSummary>,
    /// To go on with; null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

/// What kind of thing waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InboxKind {
    Question,
    Ticket,
    Blocker,
    Alert,
}

/// Whether it still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionStatus {
    Open,
    Answered,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionSummary {
    /// Id, a UUID.
    pub question_id: String,
    /// What it is called in its project: Q-001 or TK-001.
    pub handle: String,
    /// Project, a UUID.
    #[schemars(with = "String")]
    pub project_id: ProjectId,
    /// question, ticket, blocker (a task waits for it) or alert (a person is to see it).
    pub kind: InboxKind,
    /// open or answered.
    pub status: QuestionStatus,
    /// critical, high, medium or low.
    pub priority: Urgency,
    /// What is asked, or what the ticket is about.
    pub question: String,
    /// What was told beside it; null if nothing.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub context: Option<Value>,
    /// The task that it came up in: TASK-001; null if none.
    pub task_id: Option<String>,
    /// The answer; null while it is open.
    pub answer: Option<String>,
    /// person, orchestrator, or the executor that was asked; null while it is open.
    pub answered_by: Option<String>,
    /// When it was asked, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub asked_at: Timestamp,
    /// When it was answered, RFC 3339 UTC; null while it is open.
    #[schemars(with = "Option<Time>")]
    pub answered_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestionInput {
    /// The question or ticket: a UUID from list_questions, or Q-001 or TK-001.
    pub question_id: Text<1, 64>,
    /// The answer, in 1 to 20000 characters; of a ticket, how it was resolved.
    pub answer: Text<1, 20_000>,
    /// Project, a UUID; needed for Q-001 and TK-001 where there are several projects.
    #[schemars(with = "Option<Id>")]
    pub project_id: Option<ProjectId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerQuestionOutput {
    /// Id, a UUID.
    pub question_id: String,
    /// What it is called in its project: Q-001 or TK-001.
    pub handle: String,
    /// answered.
    pub status: QuestionStatus,
    /// The answer.
    pub answer: String,
    /// When it was answered, RFC 3339 UTC.
    #[schemars(with = "Time")]
    pub answered_at: Timestamp,
}

//! The records of questions: answers to be sent to the attempts that asked, and what the
//! executor that answers works on.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use crate::event::Timestamp;
use crate::ids::{AttemptId, QuestionId, RepoId, TaskId};
use crate::refusal::Refusal;

/// An answer to be sent to an attempt as a follow-up.
#[derive(Clone, Debug, Deserialize)]
pub struct Sending {
    pub attempt_id: AttemptId,
    /// Of the question: `Q-001`.
    pub handle: String,
    pub question: String,
    pub answer: String,
    pub answered_by: String,
    /// A later ruling is another answer.
    pub answered_at: Timestamp,
}

/// The answers to be sent now, and when to look again: until then calls wait for the answer.
pub type Outgoing = (Vec<Sending>, Option<Timestamp>);

/// How the executor is started to answer a question.
#[derive(Clone, Debug)]
pub struct Consultation {
    /// Of the question: `Q-001`.
    pub handle: String,
    pub task_id: TaskId,
    pub prompt: String,
    /// The asker's repositories and branch; `None`: all of the project's.
    pub repos: Option<Vec<(RepoId, Option<String>)>>,
}

/// An answer, and who gave it: the executor, or the person or orchestrator who ruled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Consulted {
    pub answer: String,
    pub executor: String,
}

/// How a wait for an executor's answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerProgress {
    Answered(Consulted),
    /// It ended without an answer; its failure summary.
    Failed(Option<String>),
    /// A person or an orchestrator has ruled meanwhile.
    Ruled(Consulted),
    OutOfTime,
}

/// Answers on their way to the attempts that asked.
#[async_trait]
pub trait Deliveries {
    /// Chooses the attempts of this host that are sent the answer now, so that no call of theirs gets it
    /// as well. Leaves out those with a call that waits, and those that no follow-up may reach.
    async fn answers_to_send(&self, question: QuestionId) -> Result<Outgoing, Refusal>;

    /// Writes whether a follow-up carries the answer; if not, it waits for the next call.
    async fn answer_sent(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        is_sent: bool,
    ) -> Result<(), Refusal>;

    /// The answered questions whose answer may still have to be sent to an attempt of this host.
    async fn undelivered_questions(&self) -> Result<Vec<QuestionId>, Refusal>;
}

/// Questions that an executor answers.
#[async_trait]
pub trait Consultations {
    /// Creates the task of the executor's attempt at the first call. `asked_from`: the
    /// attempt whose repositories it works in.
    async fn consultation(
        &self,
        question: QuestionId,
        asked_from: Option<AttemptId>,
    ) -> Result<Consultation, Refusal>;

    /// The questions that an executor of this host still works on.
    async fn consultations(&self) -> Result<Vec<QuestionId>, Refusal>;

    /// Waits until the executor's attempt has ended, someone has ruled, or `timeout` and
    /// `grace` have passed since its start or since the last call stopped waiting.
    async fn await_answer(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        timeout: Duration,
        grace: Duration,
    ) -> Result<AnswerProgress, Refusal>;

    /// Records an executor's answer, unless someone has ruled. Returns the answer that holds.
    async fn executor_answered(
        &self,
        question: QuestionId,
        answer: &Consulted,
    ) -> Result<Consulted, Refusal>;

    /// Records that the executor gave no answer; the question stays in the inbox.
    async fn executor_failed(&self, question: QuestionId) -> Result<(), Refusal>;
}

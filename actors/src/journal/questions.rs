//! The records of questions: answers to be sent to the attempts that asked, and the work of the executor
//! that answers.

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
    /// The question's handle: `Q-001`.
    pub handle: String,
    pub question: String,
    pub answer: String,
    /// Who gave the answer, as text for the prompt.
    pub answered_by: String,
    /// Names the answer: a later ruling is another answer, which is sent again.
    pub answered_at: Timestamp,
}

/// The answers to be sent now, and when to look again: until then a call of an asker waits for the answer.
pub type Outgoing = (Vec<Sending>, Option<Timestamp>);

/// How the executor is started to answer a question: an attempt of a task of its own.
#[derive(Clone, Debug)]
pub struct Consultation {
    /// The question's handle: `Q-001`.
    pub handle: String,
    pub task_id: TaskId,
    pub prompt: String,
    /// The asker's repositories, at its branch; `None`: all of the project's, at their default branches.
    pub repos: Option<Vec<(RepoId, Option<String>)>>,
}

/// An answer, and who gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Consulted {
    pub answer: String,
    /// The executor; or the person or orchestrator whose ruling took its place.
    pub executor: String,
}

/// How a wait for an executor's answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerProgress {
    Answered(Consulted),
    /// The attempt ended without an answer; its failure summary.
    Failed(Option<String>),
    /// A person or an orchestrator has ruled meanwhile.
    Ruled(Consulted),
    /// The time is over, and the executor still runs.
    OutOfTime,
}

/// Answers on their way to the attempts that asked. Each answer reaches an attempt once: by its next call
/// or by a follow-up.
#[async_trait]
pub trait Deliveries {
    /// Chooses the attempts of this host that get the answer by a follow-up now, and marks them, so that no
    /// call of theirs gets it as well. Leaves out attempts with a call that waits, and attempts that no
    /// follow-up may reach.
    async fn answers_to_send(&self, question: QuestionId) -> Result<Outgoing, Refusal>;

    /// Writes whether a follow-up carries the answer; if not, the attempt's next call gets it.
    async fn answer_sent(
        &self,
        question: QuestionId,
        attempt: AttemptId,
        is_sent: bool,
    ) -> Result<(), Refusal>;

    /// The answered questions whose answer may still have to be sent to an attempt of this host: after a
    /// restart.
    async fn undelivered_questions(&self) -> Result<Vec<QuestionId>, Refusal>;
}

/// Questions that an executor answers, and how that ends.
#[async_trait]
pub trait Consultations {
    /// How to start the executor. The first call makes the task. `asked_from`: the attempt in whose
    /// repositories the executor works.
    async fn consultation(
        &self,
        question: QuestionId,
        asked_from: Option<AttemptId>,
    ) -> Result<Consultation, Refusal>;

    /// The questions that an executor of this host works on: after a restart.
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

    /// Records an executor's answer, unless someone has ruled meanwhile. Returns the answer that counts.
    async fn executor_answered(
        &self,
        question: QuestionId,
        answer: &Consulted,
    ) -> Result<Consulted, Refusal>;

    /// Records that the executor gave no answer. The question stays in the inbox, for a person.
    async fn executor_failed(&self, question: QuestionId) -> Result<(), Refusal>;
}

//! Answers that arrived after the question's call had ended.

/// An answer that arrived after its call.
#[apply(camel_output)]
pub struct LateAnswer {
    /// The question, Q-001.
    pub question_id: String,
    /// Its text.
    pub question: String,
    /// The answer.
    pub answer: String,
    /// person, orchestrator, or the executor that was asked.
    pub answered_by: String,
}

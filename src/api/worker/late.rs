//! The answer to an earlier question, delivered with a later call.

/// The answer to an earlier question.
#[apply(camel_output)]
pub struct LateAnswer {
    pub question_id: String,
    /// Its text.
    pub question: String,
    pub answer: String,
    /// person, orchestrator, or the executor that was asked.
    pub answered_by: String,
}

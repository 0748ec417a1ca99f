//! Answers that arrived after the question's call had ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An answer that arrived after its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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

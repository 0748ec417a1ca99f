//! An answer that came after the call that asked had ended: the asker's next call has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An answer that came after its call had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LateAnswer {
    /// The question, Q-001.
    pub question_id: String,
    /// What you asked.
    pub question: String,
    /// The answer.
    pub answer: String,
    /// person, orchestrator, or the executor that was asked.
    pub answered_by: String,
}

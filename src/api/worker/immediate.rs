//! `getImmediateAnswer`.

use crate::api::args::{Limit, Text};
use crate::api::worker::late::LateAnswer;
use serde_json::{Map, Value};

pub const GET_IMMEDIATE_ANSWER: &str = "\
Use when: you can't continue without an answer and want to wait for it.
Required: query (at most 400 characters).
Optional: context_bundle (task_id names the task), max_wait_seconds (30; at most 600), project_id.
Next: continue; after TIMEOUT createTicket: the answer is still delivered.
Avoid: questions that can wait; askQuestion answers at once.";

#[apply(input)]
pub struct GetImmediateAnswerInput {
    /// What you want to know, in 1 to 400 characters.
    pub query: Text<1, 400>,
    /// Facts that it depends on; task_id names the task.
    pub context_bundle: Option<Map<String, Value>>,
    /// Seconds to wait; 30 by default, 600 at most.
    #[serde(default)]
    pub max_wait_seconds: Limit<30, 600>,
    /// Project id; by default yours.
    pub project_id: Option<Text<1, 64>>,
}

#[apply(output)]
pub struct GetImmediateAnswerOutput {
    /// The answer.
    pub answer: String,
    /// Its source: document, section and lines, or Q-001 and who answered it.
    pub source: Option<String>,
    /// false: a wait without an answer ends with the error TIMEOUT.
    pub timeout: bool,
    /// Answers to other questions since your last call.
    pub answers: Vec<LateAnswer>,
}

tools! {
    /// What the tool that waits for an answer asks of the daemon.
    ImmediateTools:
    read get_immediate_answer(GetImmediateAnswerInput) -> GetImmediateAnswerOutput;
}

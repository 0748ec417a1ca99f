//! `callCOEAgent`.

use super::question::Context;
use crate::api::args::{Limit, Text};

pub const CALL_COE_AGENT: &str = "\
Use when: only the code can answer, and another agent should read it.
Required: query.
Optional: context, task_id, max_wait_seconds (by default as configured; at most 600), project_id.
Next: continue; after TIMEOUT createTicket: the answer is still delivered.
Avoid: questions about the plan; askQuestion is quicker and quotes it.";

#[apply(input)]
pub struct CallCoeAgentInput {
    /// What you want to know.
    pub query: Text<1, 4000>,
    /// What you work on: text, or {"taskId": "TASK-001"}.
    pub context: Option<Context>,
    /// Your task, TASK-001 or a UUID.
    pub task_id: Option<Text<1, 64>>,
    /// Seconds to wait for the answer; at most 600.
    pub max_wait_seconds: Option<Limit<30, 600>>,
    /// Project id; by default yours.
    pub project_id: Option<Text<1, 64>>,
}

#[apply(camel_output)]
pub struct CallCoeAgentOutput {
    /// true.
    pub success: bool,
    /// What the agent answered.
    pub answer: String,
    /// The executor, and the attempt in which it answered.
    pub source: String,
    /// The question, Q-001; absent where an earlier ruling answered.
    pub question_id: Option<String>,
}

tools! {
    /// What the tool that asks the executor that answers asks of the daemon.
    ConsultTools:
    read call_coe_agent(CallCoeAgentInput) -> CallCoeAgentOutput;
}

//! `callCOEAgent`.

use super::question::Context;
use crate::api::args::{Limit, Text};
use crate::api::{Refusable, Session};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const CALL_COE_AGENT: &str = "\
Use when: only the code can answer, and another agent should look.
Required: query.
Optional: context, task_id, max_wait_seconds (by default as configured; at most 600), project_id.
Next: continue; after TIMEOUT createTicket: the answer is still delivered.
Avoid: questions about the plan; askQuestion is quicker and quotes it.";

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallCoeAgentOutput {
    /// true.
    pub success: bool,
    /// What the agent answered.
    pub answer: String,
    /// The executor, and the attempt in which it answered.
    pub source: String,
    /// The question, Q-001; absent where an earlier ruling answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_id: Option<String>,
}

/// What the tool that asks the executor that answers asks of the daemon.
#[async_trait]
pub trait ConsultTools: Send + Sync {
    async fn call_coe_agent(
        &self,
        session: &Session,
        input: CallCoeAgentInput,
    ) -> Refusable<CallCoeAgentOutput>;
}

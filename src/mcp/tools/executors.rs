//! Executors: who can be set to work.

use provost_actors::executor::Description;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const LIST_EXECUTORS: &str = "\
Use when: you choose who works on a task.
Required: none.
Optional: none.
Next: start_task_attempt with an executor of available = true.
Avoid: executors that are not available; names from memory.";

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListExecutorsInput {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListExecutorsOutput {
    /// The executors, in a fixed order.
    pub executors: Vec<ExecutorSummary>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the shape of the answer is given")]
pub struct ExecutorSummary {
    /// Name to give to start_task_attempt, as it is.
    pub executor: String,
    /// Its variants, each usable in start_task_attempt as it is; may be empty.
    pub variants: Vec<String>,
    /// The variant that is used when none is given; null if there is none.
    pub default_variant: Option<String>,
    /// Whether the agent can call MCP tools.
    pub supports_mcp: bool,
    /// Whether the program is there and can run.
    pub available: bool,
    /// Why it can't run; null if it can.
    pub unavailable_reason: Option<String>,
    /// Whether a follow-up continues the same conversation.
    pub supports_resume: bool,
    /// Whether it can be interrupted within a turn and go on.
    pub supports_interrupt: bool,
}

impl From<Description> for ExecutorSummary {
    fn from(description: Description) -> Self {
        Self {
            executor: description.name,
            variants: description.variants,
            default_variant: description.default_variant,
            supports_mcp: description.supports_mcp,
            available: description.unavailable_reason.is_none(),
            unavailable_reason: description.unavailable_reason,
            supports_resume: description.supports_resume,
            supports_interrupt: description.supports_interrupt,
        }
    }
}

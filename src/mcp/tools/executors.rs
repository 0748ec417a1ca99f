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
    /// What it speaks: claude, codex, acp, plain, ….
    pub protocol: String,
    /// Version of the program; null if it is not told.
    pub version: Option<String>,
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
    /// How to install it; null if it can run, or that is not known.
    pub install: Option<String>,
    /// Whether a follow-up continues the same conversation.
    pub supports_resume: bool,
    /// Whether it can be interrupted within a turn and go on.
    pub supports_interrupt: bool,
    /// Whether a variant of it asks for permission before it acts.
    pub supports_approvals: bool,
}

impl ExecutorSummary {
    /// An executor, and the version of its program.
    pub fn new(description: Description, version: Option<String>) -> Self {
        let is_available = description.unavailable_reason.is_none();
        Self {
            executor: description.name,
            protocol: description.protocol.to_owned(),
            version,
            variants: description.variants,
            default_variant: description.default_variant,
            supports_mcp: description.supports_mcp,
            available: is_available,
            unavailable_reason: description.unavailable_reason,
            install: description.install.filter(|_| !is_available),
            supports_resume: description.supports_resume,
            supports_interrupt: description.supports_interrupt,
            supports_approvals: description.supports_approvals,
        }
    }
}

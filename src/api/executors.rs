//! Executors: the agents that can work on a task.

use provost_actors::executor::Description;

/// The description of `list_executors`, by which a model decides whether to call it.
pub const LIST_EXECUTORS: &str = "\
Use when: you choose an executor for a task.
Next: start_task_attempt with an executor of available = true.
Avoid: executors that are not available; names from memory.";

#[apply(input)]
pub struct ListExecutorsInput {}

#[apply(output)]
pub struct ListExecutorsOutput {
    /// Executors, available ones first, a stand-in last.
    pub executors: Vec<ExecutorSummary>,
}

#[apply(output)]
#[expect(clippy::struct_excessive_bools, reason = "the shape of the answer is given")]
pub struct ExecutorSummary {
    /// Its name.
    pub executor: String,
    /// Protocol it speaks.
    pub protocol: String,
    /// Its version, if known.
    pub version: Option<String>,
    /// Variants for start_task_attempt.
    pub variants: Vec<String>,
    /// Variant when none is given.
    pub default_variant: Option<String>,
    /// It can call MCP tools.
    pub supports_mcp: bool,
    /// Its program can run.
    pub available: bool,
    /// Why it can't run.
    pub unavailable_reason: Option<String>,
    /// How to install it.
    pub install: Option<String>,
    /// Follow-ups continue its conversation.
    pub supports_resume: bool,
    /// A turn can be interrupted.
    pub supports_interrupt: bool,
    /// It can ask for permission.
    pub supports_approvals: bool,
    /// What to know before choosing it.
    pub note: Option<String>,
    /// A scripted stand-in without a model, for tests and demos: do not choose it.
    pub stand_in: bool,
}

impl ExecutorSummary {
    /// The summary of an executor; `version` is that of its program, if it is known.
    pub fn new(description: Description, version: Option<String>) -> Self {
        let is_available = description.unavailable.is_none();
        Self {
            executor: description.name,
            protocol: description.protocol.to_owned(),
            version,
            variants: description.variants,
            default_variant: description.default_variant,
            supports_mcp: description.supports_mcp,
            available: is_available,
            unavailable_reason: description.unavailable.map(|why| why.to_string()),
            install: description.install.filter(|_| !is_available),
            supports_resume: description.supports_resume,
            supports_interrupt: description.supports_interrupt,
            supports_approvals: description.supports_approvals,
            note: description.note,
            stand_in: description.stand_in,
        }
    }
}

tools! { ExecutorTools: read list_executors(ListExecutorsInput) -> ListExecutorsOutput; }

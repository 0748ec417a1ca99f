//! `getNextTask`.

use crate::api::args::Text;
use crate::api::brief::{PlanReference, Prompt};
use crate::api::worker::late::LateAnswer;
use crate::api::worker::ticket::Urgency;
use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::journal::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

pub const GET_NEXT_TASK: &str = "\
Use when: you want to know the next task, or to claim it.
Required: none.
Optional: filter, priority, includeContext, includeDetailedPrompt, includeRelatedFiles, claim, \
project_id, request_id.
Next: do it, then reportTaskDone with its taskId.
Avoid: working on a task that another agent may hold; claim it.";

#[apply(camel_input)]
#[derive(Default)]
#[serde(default)]
pub struct GetNextTaskInput {
    /// ready (default), blocked (by a dependency, ticket or report) or all that are not done.
    pub filter: Filter,
    /// Only critical, high, medium or low ones.
    pub priority: Option<Urgency>,
    /// false: no context and designReferences.
    pub include_context: Flag,
    /// false: no superDetailedPrompt.
    pub include_detailed_prompt: Flag,
    /// false: no files.
    pub include_related_files: Flag,
    /// true claims it, so that no other agent gets it.
    pub claim: bool,
    /// Project id; by default yours.
    #[serde(rename = "project_id")]
    pub project_id: Option<Text<1, 64>>,
}

/// A yes that may be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Flag(pub bool);

impl Default for Flag {
    fn default() -> Self {
        Self(true)
    }
}

#[apply(output)]
#[serde(rename_all = "camelCase")]
pub struct GetNextTaskOutput {
    /// true.
    pub success: bool,
    /// The first matching task; null if there is none.
    pub task: Option<NextTask>,
    /// Number of matching tasks, the first included.
    pub queue_length: usize,
    /// The tasks after it.
    pub next_tasks_preview: Vec<TaskPreview>,
    /// Answers to your questions since your last call.
    pub answers: Vec<LateAnswer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextTask {
    /// Its handle: TASK-001.
    pub task_id: String,
    /// The work in a line.
    pub title: String,
    /// Its full description.
    pub description: String,
    /// critical, high, medium or low.
    #[schemars(with = "String")]
    pub priority: Priority,
    /// ready, in-progress, blocked or done.
    pub status: TaskState,
    /// Tasks that it depends on.
    pub dependencies: Vec<String>,
    /// Unfinished dependencies, and open tickets that block it.
    pub blocked_by: Vec<String>,
    /// Related tasks.
    pub related_tasks: Vec<String>,
    /// The task's brief, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub super_detailed_prompt: Option<Prompt>,
    /// The part of the plan that it comes from, else the newest plan; empty texts if there is none.
    pub plan_reference: PlanReference,
    /// In hours; 0 if there is no estimate.
    pub estimated_hours: Number,
    /// Its id, a UUID.
    #[schemars(with = "String")]
    pub uuid: TaskId,
    /// Why a report created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it is blocked, as reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    /// Whether you hold the claim now.
    pub claimed: bool,
    /// When the claim ends unless you report before, RFC 3339; absent if it lasts as long as your attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub claimed_until: Option<Timestamp>,
}

/// The worker API's word for how far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    Pending,
    Ready,
    InProgress,
    Done,
    Blocked,
}

#[apply(output)]
pub struct TaskPreview {
    /// Its handle: TASK-001.
    pub id: String,
    /// The work in a line.
    pub title: String,
    /// critical, high, medium or low.
    #[schemars(with = "String")]
    pub priority: Priority,
}

/// Which of the open tasks are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    #[default]
    Ready,
    Blocked,
    All,
}

tools! {
    /// What the tool that hands out tasks asks of the daemon.
    NextTools:
    change get_next_task(GetNextTaskInput) -> GetNextTaskOutput;
}

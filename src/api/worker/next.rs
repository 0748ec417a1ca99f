//! `getNextTask`.

use crate::api::args::Text;
use crate::api::brief::{PlanReference, Prompt};
use crate::api::worker::late::LateAnswer;
use crate::api::worker::ticket::Urgency;
use crate::api::{Key, Once, Refusable, Session};
use async_trait::async_trait;
use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::journal::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

pub const GET_NEXT_TASK: &str = "\
Use when: you want to know what to do next, or to take it (claim).
Required: none.
Optional: filter, priority, includeContext, includeDetailedPrompt, includeRelatedFiles, claim, \
project_id, request_id.
Next: do it, then reportTaskDone with its taskId.
Avoid: work on a task that another may have; claim it.";

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GetNextTaskInput {
    /// ready (default), blocked (by what it depends on, a ticket or a report) or all that are
    /// not done.
    pub filter: Filter,
    /// Only critical, high, medium or low ones.
    pub priority: Option<Urgency>,
    /// false: no context and designReferences.
    pub include_context: Flag,
    /// false: no superDetailedPrompt.
    pub include_detailed_prompt: Flag,
    /// false: no files.
    pub include_related_files: Flag,
    /// true takes it: nobody else gets it.
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetNextTaskOutput {
    /// true.
    pub success: bool,
    /// The first of the tasks asked for; null if there is none.
    pub task: Option<NextTask>,
    /// How many tasks were asked for, the first included.
    pub queue_length: usize,
    /// Those that come after it.
    pub next_tasks_preview: Vec<TaskPreview>,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextTask {
    /// What it is called: TASK-001.
    pub task_id: String,
    /// What is to be done, in a line.
    pub title: String,
    /// All that was written of it.
    pub description: String,
    /// critical, high, medium or low.
    #[schemars(with = "String")]
    pub priority: Priority,
    /// ready, in-progress, blocked or done.
    pub status: TaskState,
    /// Tasks that it depends on.
    pub dependencies: Vec<String>,
    /// Those of them that are not done, and open tickets that block it.
    pub blocked_by: Vec<String>,
    /// Tasks to know of.
    pub related_tasks: Vec<String>,
    /// What is to be known to do it, if anybody wrote it down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub super_detailed_prompt: Option<Prompt>,
    /// The part of the plan that it comes from; else the project's newest plan; empty texts if
    /// there is none.
    pub plan_reference: PlanReference,
    /// In hours; 0 if there is no estimate.
    pub estimated_hours: Number,
    /// Its id, a UUID.
    #[schemars(with = "String")]
    pub uuid: TaskId,
    /// Why a report made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it was reported as blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    /// Whether you have it in hand now.
    pub claimed: bool,
    /// When others may take it, unless you call about it before, RFC 3339; left out of a task
    /// that you have as long as your attempt runs.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPreview {
    /// What it is called: TASK-001.
    pub id: String,
    /// What is to be done, in a line.
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

/// What the tool that hands out tasks asks of the daemon.
#[async_trait]
pub trait NextTools: Send + Sync {
    async fn get_next_task(
        &self,
        session: &Session,
        key: Option<Key>,
        input: GetNextTaskInput,
    ) -> Refusable<Once<GetNextTaskOutput>>;
}

//! `getNextTask`.

use crate::api::brief::{PlanReference, Prompt};
use crate::api::prelude::*;

/// The description of `getNextTask`, by which a model decides whether to call it.
pub const GET_NEXT_TASK: &str = "\
Use when: you want to know the next task, or to claim it.
Next: do it, then reportTaskDone with its taskId.
Avoid: working on a task that another agent may hold; claim it.";

#[apply(camel_input)]
#[derive(Default)]
#[serde(default)]
pub struct GetNextTaskInput {
    /// ready (default), blocked (by a dependency, ticket or report) or all that are not done.
    pub filter: Filter,
    /// Only critical, high, medium or low ones.
    pub priority: Option<Priority>,
    /// false: no context and designReferences.
    pub include_context: Flag,
    /// false: no superDetailedPrompt.
    pub include_detailed_prompt: Flag,
    /// false: no files.
    pub include_related_files: Flag,
    /// true claims it, so that no other agent gets it.
    pub claim: bool,
    pub project_id: Option<ProjectName>,
}

/// A yes that may be taken back.
#[apply(data)]
#[derive(Copy)]
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
    pub success: bool,
    /// The first matching task; null if there is none.
    pub task: Option<NextTask>,
    /// Number of matching tasks, the first included.
    pub queue_length: usize,
    /// The tasks after it.
    pub next_tasks_preview: Vec<TaskPreview>,
    pub answers: Vec<LateAnswer>,
}

#[apply(camel_output)]
pub struct NextTask {
    pub task_id: String,
    pub title: String,
    /// Its full description.
    pub description: String,
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
    pub super_detailed_prompt: Option<Prompt>,
    /// The part of the plan that it comes from, else the newest plan; empty texts if there is none.
    pub plan_reference: PlanReference,
    /// In hours; 0 if there is no estimate.
    pub estimated_hours: Number,
    /// Its id, a UUID.
    pub uuid: TaskId,
    /// Why a report created it.
    pub reason: Option<String>,
    /// Why it is blocked, as reported.
    pub blocked_reason: Option<String>,
    /// Whether you hold the claim now.
    pub claimed: bool,
    /// When the claim ends unless you report before, RFC 3339; absent if it lasts as long as your attempt.
    pub claimed_until: Option<Timestamp>,
}

/// The worker API's word for how far a task is.
#[apply(hyphened_word)]
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
    pub title: String,
    pub priority: Priority,
}

/// Which of the open tasks are asked for.
#[apply(word)]
#[derive(Default)]
pub enum Filter {
    #[default]
    Ready,
    Blocked,
    All,
}

tools! { NextTools: change get_next_task(GetNextTaskInput) -> GetNextTaskOutput; }

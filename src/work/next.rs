//! `getNextTask`: the task that is to be done next, and what is to be known of it.

use provost_actors::event::Timestamp;
use provost_actors::ids::TaskId;
use provost_actors::journal::{Priority, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::brief::{Brief, PlanReference, Prompt};
use super::late::LateAnswer;
use super::queue::{Filter, Place};
use super::ticket::Urgency;
use crate::args::Text;

pub const GET_NEXT_TASK: &str = "\
Use when: you want to know what to do next, or to take it (claim).
Required: none.
Optional: filter, priority, includeContext, includeDetailedPrompt, includeRelatedFiles, claim, \
project_id, request_id.
Next: do it, then reportTaskDone with its taskId.
Avoid: work on a task that another may have; claim it.";

/// How many tasks after the first are shown.
pub const PREVIEWS: usize = 5;

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

impl TaskState {
    /// Of a task of this status, which if open stands there.
    pub fn of(status: TaskStatus, place: Place) -> Self {
        match (status, place) {
            (TaskStatus::Done, _) => Self::Done,
            (TaskStatus::Cancelled, _) => Self::Pending,
            (_, Place::Ready) => Self::Ready,
            (_, Place::Blocked) => Self::Blocked,
            (_, Place::InHand) => Self::InProgress,
        }
    }
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

impl GetNextTaskInput {
    /// As much of a brief's prompt as is asked for. Where it says nothing of what is
    /// to be made, the task's own words stand.
    pub fn prompt(&self, brief: &Brief, description: &str) -> Option<Prompt> {
        let whole =
            brief.super_detailed_prompt.clone().filter(|_| self.include_detailed_prompt.0)?;
        let mut prompt = Prompt {
            description: whole.description.or_else(|| Some(description.to_owned())),
            estimated_hours: brief.hours(),
            files: whole.files.or_else(|| Some(super::brief::Files::default())),
            ..whole
        };
        if !self.include_context.0 {
            prompt.context = None;
            prompt.design_references.clear();
        }
        if !self.include_related_files.0 {
            prompt.files = None;
        }
        Some(prompt)
    }
}

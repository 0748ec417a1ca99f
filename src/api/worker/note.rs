//! What the answers to observations share.

use provost_actors::journal::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A task that was made of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTaskCreated {
    /// What it is called: TASK-001.
    pub task_id: String,
    /// What is to be done.
    pub title: String,
    /// critical, high, medium or low.
    #[schemars(with = "String")]
    pub priority: Priority,
    /// true.
    pub added_to_queue: bool,
    /// Its place among the ready tasks.
    pub position: String,
}

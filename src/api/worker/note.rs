//! What the answers to observations share.

use provost_actors::journal::Priority;

/// A task that was made of it.
#[apply(camel_output)]
pub struct NewTaskCreated {
    /// Its handle: TASK-001.
    pub task_id: String,
    /// The work in a line.
    pub title: String,
    /// critical, high, medium or low.
    #[schemars(with = "String")]
    pub priority: Priority,
    /// true.
    pub added_to_queue: bool,
    /// Its place among the ready tasks.
    pub position: String,
}

//! What the answers to reports share.

/// How far a project is.
#[apply(camel_output)]
#[derive(Copy)]
pub struct Dashboard {
    /// Tasks that are done; verifications and investigations don't count.
    pub completed_count: u32,
    /// All such tasks except cancelled ones.
    pub total_count: u32,
    /// Percentage of the two, to one decimal.
    pub percent_complete: f64,
    /// Blocked tasks of any kind.
    pub blocked_count: u32,
    /// Verifications that are not done.
    pub verification_pending_count: u32,
}

/// A task that a report put on the board.
#[apply(camel_output)]
pub struct TaskMade {
    pub task_id: String,
    pub title: String,
}

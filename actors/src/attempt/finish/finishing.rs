//! The handle by which an attempt's owner holds a finish that is under way.

use tokio::task::AbortHandle;

use crate::ids::FinishId;

/// A finish that is under way. A drop aborts its task: it ends with its owner, and the next owner continues
/// it from its row.
pub struct Finishing {
    /// The finish that the task carries out.
    pub finish: FinishId,
    task: AbortHandle,
}

impl Finishing {
    pub fn new(finish: FinishId, task: AbortHandle) -> Self {
        Self { finish, task }
    }

    /// Whether this is that finish, and its task still runs.
    pub fn goes_on_with(&self, finish: FinishId) -> bool {
        self.finish == finish && !self.task.is_finished()
    }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

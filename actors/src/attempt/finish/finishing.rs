//! A finish that is under way, as the owner of its attempt holds it.

use tokio::task::AbortHandle;

use crate::ids::FinishId;

/// A finish that is carried out. It ends with its owner: the next one begins it again.
pub struct Finishing {
    pub finish: FinishId,
    task: AbortHandle,
}

impl Finishing {
    pub fn new(finish: FinishId, task: AbortHandle) -> Self {
        Self { finish, task }
    }

    /// Whether it is this finish, which has not come to its end.
    pub fn goes_on_with(&self, finish: FinishId) -> bool {
        self.finish == finish && !self.task.is_finished()
    }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

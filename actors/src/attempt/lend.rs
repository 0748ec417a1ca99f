//! The lock of an attempt's worktrees, lent to another attempt whose work is applied to its
//! branch. Until the loan ends, a turn that begins waits, as it does for the attempt's own tasks.
//! While an owner lends its lock it waits for no other owner's, so two attempts can't block each other.
//!
//! ```text
//!  Lend ─▶ granted: `lent` + 1 ─▶ the lock is free ─▶ WorktreeLoan ─ drop ─▶ LoanReturned: `lent` - 1
//!     └──▶ refused, while a turn, a finish, a collection or another loan is under way
//!  restart: `reserve` takes the lock before any turn, for the finish that had the loan
//! ```

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ractor::RpcReplyPort;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::unconstrained;

use super::message::WorktreeLoan;
use super::snapshot;
use super::state::AttemptActorState;
use crate::ids::FinishId;
use crate::journal::Phase;
use crate::refusal::{Code, Refusal};
use crate::task::spawn;

/// Takes a place in the lock's queue now, and returns a future that waits for the lock. tokio's mutex
/// serves its waiters in the order of their first poll, so this polls once: a turn that asks later comes
/// later. `unconstrained`, because a task that has used up its budget gets no place by a poll.
pub fn queue_for(
    lock: &Arc<Mutex<()>>,
) -> impl Future<Output = OwnedMutexGuard<()>> + Send + use<> {
    let mut waiting = Box::pin(unconstrained(Arc::clone(lock).lock_owned()));
    let first = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    async move {
        match first {
            Poll::Ready(guard) => guard,
            Poll::Pending => waiting.await,
        }
    }
}

impl AttemptActorState {
    /// Lends the worktrees to a finish of another attempt: answered when the lock is free and the
    /// snapshot of the last turn is made. Refused while a turn runs or waits.
    pub fn lend(&mut self, finish: FinishId, port: RpcReplyPort<Result<WorktreeLoan, Refusal>>) {
        let owner = self.myself.clone();
        if let Some((_, worktrees)) = self.reserved.take_if(|(of, _)| *of == finish) {
            drop(port.send(Ok(WorktreeLoan::new(worktrees, owner))));
            return;
        }
        if let Err(refusal) = self.may_lend() {
            drop(port.send(Err(refusal)));
            return;
        }
        self.lent += 1;
        let worktrees = queue_for(&self.worktrees);
        let (world, attempt) = (Arc::clone(&self.world), self.attempt.clone());
        spawn(async move {
            let lent = WorktreeLoan::new(worktrees.await, owner);
            // Otherwise the snapshot of the last turn would contain the work of the other attempt.
            snapshot::before_finish(&world, &attempt).await;
            let _ = port.send(Ok(lent));
        });
    }

    /// Whether the work of another attempt may be applied to this one now.
    ///
    /// # Errors
    /// A turn runs or waits, or another call finishes, collects or has borrowed it.
    pub(super) fn may_lend(&self) -> Result<(), Refusal> {
        let id = self.attempt.attempt_id;
        let refuse = |why: &str| {
            let message = format!("nothing can be applied to attempt {id} now: {why}");
            Refusal::new(Code::AttemptRunning, message).detail("attempt_id", id.to_string())
        };
        let rests = matches!(self.attempt.phase, Phase::Settled | Phase::Idle);
        if !rests || self.queue.active {
            return Err(refuse("a turn of it runs or waits").hint(
                "Call wait_for_attempts until that attempt has settled, then the tool again.",
            ));
        }
        if self.finishing.is_some() || self.collecting > 0 || self.lent > 0 {
            return Err(refuse("another call finishes or collects it")
                .hint("Call the tool again when that has ended."));
        }
        Ok(())
    }

    /// Keeps the worktrees for a finish that they were lent to before a restart, so that no turn begins
    /// before that finish continues. To be called before any turn begins.
    pub fn reserve(&mut self) {
        let Some(finish) = self.attempt.lends.take() else { return };
        if let Ok(worktrees) = Arc::clone(&self.worktrees).try_lock_owned() {
            self.lent += 1;
            self.reserved = Some((finish, worktrees));
        }
    }

    /// A loan has ended.
    pub fn lent_back(&mut self) {
        self.lent = self.lent.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_lock_is_given_in_the_order_of_the_calls() {
        let lock = Arc::new(Mutex::new(()));
        let held = Arc::clone(&lock).lock_owned().await;
        let first = queue_for(&lock);
        let later = tokio::spawn(queue_for(&lock));
        drop(held);
        let first = first.await;
        assert!(!later.is_finished());
        drop(first);
        later.await.unwrap();
    }
}

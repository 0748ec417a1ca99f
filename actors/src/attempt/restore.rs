//! The worktrees of an attempt at rest that has come from another host: made before a turn needs them.

use std::sync::Arc;

use ractor::RpcReplyPort;

use super::message::AttemptMessage;
use super::prepare;
use super::state::AttemptActorState;
use crate::refusal::{Code, Refusal};
use crate::task::spawn;

impl AttemptActorState {
    /// Makes the worktrees in a task, unless a turn is under way, which makes them itself. The actor does
    /// not end before that task.
    pub fn restore(&mut self, port: RpcReplyPort<Result<(), Refusal>>) {
        if self.queue.active {
            return drop(port.send(Ok(())));
        }
        self.restoring += 1;
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        let (attempt, worktrees) = (self.attempt.clone(), Arc::clone(&self.worktrees));
        spawn(async move {
            let _making = worktrees.lock().await;
            let made = prepare::restored(&world, &attempt).await;
            let refusal = |why| Refusal::new(Code::WorkspaceFailed, why);
            let _ = port.send(made.map_err(refusal));
            let _ = myself.send_message(AttemptMessage::Restored);
        });
    }
}

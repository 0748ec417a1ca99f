//! The dev server of an attempt, as its actor owns it: one at a time, beside whatever else runs.

use std::sync::Arc;

use ractor::RpcReplyPort;
use tokio::sync::watch;

use super::AttemptMessage;
use super::message::PreviewAsk;
use super::provision::preview::{Preview, PreviewBegin, PreviewTask};
use super::state::AttemptActorState;
use crate::refusal::Refusal;

impl AttemptActorState {
    pub fn preview(
        &mut self,
        ask: PreviewAsk,
        port: RpcReplyPort<Result<watch::Receiver<Preview>, Refusal>>,
    ) {
        let is_stop = ask == PreviewAsk::Stop;
        let begin = match ask {
            PreviewAsk::Start(repo) => PreviewBegin::New(repo),
            // One that has no owner: its last one has failed.
            PreviewAsk::Stop => PreviewBegin::Resume(None),
            PreviewAsk::Resume(process) => PreviewBegin::Resume(Some(process)),
        };
        let (world, attempt) = (&self.world, &self.attempt);
        let (worktrees, myself) = (&self.worktrees, &self.myself);
        let previewing = self.previewing.get_or_insert_with(|| {
            let (world, worktrees) = (Arc::clone(world), Arc::clone(worktrees));
            let (attempt, myself) = (attempt.clone(), myself.clone());
            let task = PreviewTask { world, attempt, worktrees, begin };
            task.spawn(move || drop(myself.send_message(AttemptMessage::PreviewEnded)))
        });
        if is_stop {
            previewing.stop();
        }
        let _ = port.send(Ok(previewing.seen.clone()));
    }
}

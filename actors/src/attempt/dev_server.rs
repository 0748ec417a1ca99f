//! The dev server of an attempt, as its actor owns it: one at a time, beside whatever else runs.

use std::sync::Arc;

use ractor::RpcReplyPort;
use tokio::sync::watch;

use super::AttemptMessage;
use super::message::PreviewAsk;
use super::provision::preview::{Preview, PreviewTask};
use super::state::AttemptActorState;
use crate::refusal::{Code, Refusal};

impl AttemptActorState {
    pub fn preview(
        &mut self,
        ask: PreviewAsk,
        port: RpcReplyPort<Result<watch::Receiver<Preview>, Refusal>>,
    ) {
        let _ = port.send(self.previewed(ask));
    }

    /// Goes on with the one that an earlier owner left. It takes no lock, so it can be ended
    /// whatever has the worktrees.
    pub fn resume_preview(&mut self) {
        if let Some(process) = self.attempt.dev_server.take() {
            // Without a wish for another one, nothing refuses it.
            let _ = self.previewed(PreviewAsk::Resume(process));
        }
    }

    fn previewed(&mut self, ask: PreviewAsk) -> Result<watch::Receiver<Preview>, Refusal> {
        if let (Some(previewing), PreviewAsk::Start(wanted)) = (&self.previewing, &ask) {
            let repo = previewing.seen.borrow().repo.clone();
            // One that was just taken up does not know its repository yet.
            if !repo.is_empty() && repo != *wanted {
                let message = format!("the dev server of {repo} runs, and an attempt has one");
                return Err(Refusal::new(Code::InvalidArgument, message)
                    .hint("End it first: action end_preview, or `provost preview --stop`."));
            }
        }
        let is_stop = ask == PreviewAsk::Stop;
        let (world, attempt) = (&self.world, &self.attempt);
        let (worktrees, myself) = (&self.worktrees, &self.myself);
        let why = if self.finishing.is_some() {
            "it begins when the finish of the attempt has ended"
        } else {
            "it begins when the attempt's worktrees are ready: they are made or set up, or a \
             person has to approve the commands of their provost.toml first"
        };
        let previewing = self.previewing.get_or_insert_with(|| {
            let (world, worktrees) = (Arc::clone(world), Arc::clone(worktrees));
            let (attempt, myself) = (attempt.clone(), myself.clone());
            let task = PreviewTask { world, attempt, worktrees, ask, why };
            task.spawn(move || drop(myself.send_message(AttemptMessage::PreviewEnded)))
        });
        if is_stop {
            previewing.stop();
        }
        Ok(previewing.seen.clone())
    }
}

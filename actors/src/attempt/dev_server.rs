//! The dev server of an attempt, as its actor owns it: one at a time, beside the turns. The actor starts
//! one task for it (`provision/preview/task.rs`) and sends that task a stop.

use std::sync::Arc;

use ractor::RpcReplyPort;
use tokio::sync::watch;

use super::AttemptMessage;
use super::message::PreviewAsk;
use super::provision::preview::{Preview, PreviewTask};
use super::state::AttemptActorState;
use crate::refusal::{Code, Refusal};

impl AttemptActorState {
    /// Starts, ends or continues the dev server. Answered at once: the receiver shows what becomes of it.
    pub fn preview(
        &mut self,
        ask: PreviewAsk,
        port: RpcReplyPort<Result<watch::Receiver<Preview>, Refusal>>,
    ) {
        let _ = port.send(self.previewed(ask));
    }

    /// Continues with the dev server that an earlier owner left. This takes no lock, so that the server
    /// can be ended whoever has the worktrees.
    pub fn resume_preview(&mut self) {
        if let Some(process) = self.attempt.dev_server.take() {
            // Only a `Start` for another repository is refused.
            let _ = self.previewed(PreviewAsk::Resume(process));
        }
    }

    /// The dev server that is alive, or a new task for it. A `Stop` without one gets a task too, which looks
    /// for a server that only the disk knows.
    fn previewed(&mut self, ask: PreviewAsk) -> Result<watch::Receiver<Preview>, Refusal> {
        if let (Some(previewing), PreviewAsk::Start(wanted)) = (&self.previewing, &ask) {
            let repo = previewing.seen.borrow().repo.clone();
            // One that is being continued after a restart does not know its repository yet.
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

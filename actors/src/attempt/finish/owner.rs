//! The owner's part in a finish: it begins one while no turn runs, and before any turn it continues the one
//! that an earlier owner left.

use std::sync::Arc;

use super::task::FinishTask;
use crate::attempt::lend::queue_for;
use crate::attempt::message::AttemptMessage;
use crate::attempt::state::AttemptActorState;
use crate::ids::FinishId;
use crate::journal::{
    Attempt, Finish, FinishRequest, FinishState, Idempotent, Key, Phase, RepoRequest, remembered,
};
use crate::refusal::{Code, Refusal};
use ractor::RpcReplyPort;

/// Where the answer to a call that begins a finish goes. `Once`: an earlier call with this key may have
/// begun it.
pub type FinishPort = RpcReplyPort<Result<Idempotent<FinishId>, Refusal>>;

impl AttemptActorState {
    /// Begins a finish, and answers once its row is written. The finish itself runs in a task.
    pub async fn finish(&mut self, key: Option<&Key>, request: FinishRequest, port: FinishPort) {
        let _ = port.send(self.begin_finish(key, request).await);
    }

    /// Writes the finish's row and starts its task, or joins the finish under way if that asks for the same.
    ///
    /// # Errors
    /// A turn runs or waits, another finish or a collection is under way, or the worktrees are lent.
    async fn begin_finish(
        &mut self,
        key: Option<&Key>,
        request: FinishRequest,
    ) -> Result<Idempotent<FinishId>, Refusal> {
        let journal = Arc::clone(&self.world.journal);
        if let Some(begun) = remembered(&*journal, key).await? {
            return Ok(begun);
        }
        let rests = matches!(self.attempt.phase, Phase::Settled | Phase::Idle);
        if !rests || self.queue.active {
            return Err(self.not_now("a turn of it runs or waits").hint(
                "Call wait_for_attempts until the attempt has settled, then the tool again. Or \
                 call stop_attempt first.",
            ));
        }
        if let Some(finishing) = &self.finishing {
            let id = finishing.finish;
            let open = journal.finish(id).await?.filter(|it| {
                it.attempt_id == self.attempt.attempt_id && it.state == FinishState::Open
            });
            if open.is_some_and(|open| open.request.asks_the_same(&request)) {
                return journal.join_finish(key, id).await;
            }
            return Err(self.not_now("another call is finishing it").hint(
                "Call get_attempt_status until its finish is not open, then the tool again.",
            ));
        }
        if self.collecting > 0 {
            return Err(self
                .not_now("its worktrees are being collected")
                .hint("Call the tool again when the collection has ended."));
        }
        if self.lent > 0 {
            return Err(self
                .not_now("the work of another attempt is being applied to it")
                .hint("Call get_attempt_status until that attempt's finish is not open, then the tool again."));
        }
        let finish = Finish::new(self.attempt.attempt_id, request);
        let begun = journal.record_finish(key, &finish).await?;
        if !begun.deduplicated {
            self.carry_out(finish);
        }
        Ok(begun)
    }

    /// Continues the finish that an earlier owner left. To be called before any turn begins.
    pub fn resume_finish(&mut self) {
        let Some(finish) = self.attempt.finish.take() else { return };
        self.carry_out(finish);
    }

    /// Starts the task of a finish, with its place in the queue for the worktrees. A snapshot, or a turn
    /// that was stopped, may still have them and comes first; a turn that begins later waits.
    fn carry_out(&mut self, finish: Finish) {
        let (world, myself) = (Arc::clone(&self.world), self.myself.clone());
        let (worktrees, lend) = (queue_for(&self.worktrees), Arc::clone(&self.lend));
        let task = FinishTask::new(world, self.attempt.clone(), finish, myself.clone(), lend);
        self.finishing = Some(task.spawn(worktrees, move || {
            let _ = myself.send_message(AttemptMessage::Finished);
        }));
    }

    /// Applies the work that another host's attempt has committed to this attempt's branch, unless that
    /// is under way. `gateway/apply.rs` calls this again each second until the row says that it is done.
    pub fn apply(&mut self, finish: Finish, port: RpcReplyPort<Result<(), Refusal>>) {
        let _ = port.send(Ok(()));
        let id = finish.finish_id;
        if self.finishing.as_ref().is_some_and(|it| it.finish == id)
            || self.refusing.as_ref().is_some_and(|it| it.goes_on_with(id))
        {
            return;
        }
        let kept = self.reserved.take_if(|(of, _)| *of == id).map(|(_, worktrees)| worktrees);
        let (world, myself) = (Arc::clone(&self.world), self.myself.clone());
        let attempt = onto_attempt(&self.attempt, &finish);
        let lend = Arc::clone(&self.lend);
        let task = FinishTask::new(world, attempt, finish, myself.clone(), lend);
        if kept.is_some() {
            self.lent_back();
        } else if let Err(refusal) = self.may_lend() {
            self.refusing = Some(task.spawn_refusal(refusal));
            return;
        }
        let queued = queue_for(&self.worktrees);
        let worktrees = async move {
            match kept {
                Some(worktrees) => worktrees,
                None => queued.await,
            }
        };
        self.finishing = Some(task.spawn(worktrees, move || {
            let _ = myself.send_message(AttemptMessage::Finished);
        }));
    }

    /// The refusal of a finish that can't begin now.
    fn not_now(&self, why: &str) -> Refusal {
        let id = self.attempt.attempt_id;
        Refusal::new(Code::AttemptRunning, format!("attempt {id} can't be finished now: {why}"))
            .detail("attempt_id", id.to_string())
    }
}

/// This attempt with its repositories in the order of another attempt's finish, so that the indices of the
/// finish's steps fit.
fn onto_attempt(attempt: &Attempt, finish: &Finish) -> Attempt {
    let named = |request: &RepoRequest| {
        let name = request.onto.as_ref().map_or(&request.name, |onto| &onto.name);
        attempt.repos.iter().find(|repo| repo.name == *name).cloned()
    };
    let repos = finish.request.repos.iter().filter_map(named).collect();
    Attempt { repos, ..attempt.clone() }
}

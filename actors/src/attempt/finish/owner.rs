//! The owner's part in a finish: it begins one while no turn runs, and takes up the one that an
//! earlier owner left, before any turn.

use std::sync::Arc;

use super::task::FinishTask;
use crate::attempt::lend::queue_for;
use crate::attempt::message::AttemptMessage;
use crate::attempt::state::AttemptActorState;
use crate::ids::FinishId;
use crate::journal::{
    Attempt, Finish, FinishRequest, FinishState, Key, Once, Phase, RepoRequest, remembered,
};
use crate::refusal::{Code, Refusal};
use ractor::RpcReplyPort;

pub type FinishPort = RpcReplyPort<Result<Once<FinishId>, Refusal>>;

impl AttemptActorState {
    /// Begins a finish. It has begun when it is written down.
    pub async fn finish(&mut self, key: Option<&Key>, request: FinishRequest, port: FinishPort) {
        let _ = port.send(self.begin_finish(key, request).await);
    }

    async fn begin_finish(
        &mut self,
        key: Option<&Key>,
        request: FinishRequest,
    ) -> Result<Once<FinishId>, Refusal> {
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

    /// Goes on with a finish that an earlier owner left. Call it before any turn begins.
    pub fn resume_finish(&mut self) {
        let Some(finish) = self.attempt.finish.take() else { return };
        self.carry_out(finish);
    }

    /// A snapshot or a turn that was stopped may still have the worktrees: it comes first, and
    /// a turn that begins later waits.
    fn carry_out(&mut self, finish: Finish) {
        let (world, myself) = (Arc::clone(&self.world), self.myself.clone());
        let (worktrees, lend) = (queue_for(&self.worktrees), Arc::clone(&self.lend));
        let task = FinishTask::new(world, self.attempt.clone(), finish, myself.clone(), lend);
        self.finishing = Some(task.spawn(worktrees, move || {
            let _ = myself.send_message(AttemptMessage::Finished);
        }));
    }

    /// Applies the work that another host's attempt has committed to this one, unless that is under way.
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

    fn not_now(&self, why: &str) -> Refusal {
        let id = self.attempt.attempt_id;
        Refusal::new(Code::AttemptRunning, format!("attempt {id} can't be finished now: {why}"))
            .detail("attempt_id", id.to_string())
    }
}

/// An attempt with its repositories in the order of a finish that applies work to it.
fn onto_attempt(attempt: &Attempt, finish: &Finish) -> Attempt {
    let named = |request: &RepoRequest| {
        let name = request.onto.as_ref().map_or(&request.name, |onto| &onto.name);
        attempt.repos.iter().find(|repo| repo.name == *name).cloned()
    };
    let repos = finish.request.repos.iter().filter_map(named).collect();
    Attempt { repos, ..attempt.clone() }
}

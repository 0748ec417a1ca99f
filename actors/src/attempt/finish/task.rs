//! Carries out the steps of a finish, one after the other. It holds the attempt's worktrees, so
//! a turn that begins meanwhile waits. Each step is idempotent, by the finish's id or by the
//! commits that it names, so a daemon continues what an earlier one left.
//!
//! Order of locks: the attempt's worktrees (`spawn`), those of the target attempt (`borrow`), then the
//! repository's turn (`Repositories::in_turn`) within a step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ractor::ActorRef;

use super::finishing::Finishing;
use super::refusals::{branch_gone, git_failed, other_strategy};
use super::{Step, Stepped, next, record, with_left};
use crate::attempt::message::{AttemptMessage, Collect, CollectVerdict, LoanFn, WorktreeLoan};
use crate::attempt::provision::checks::planned;
use crate::attempt::provision::trust_command;
use crate::attempt::snapshot;
use crate::ids::CheckRunId;
use crate::journal::checks::{CheckedRepo, Submission};
use crate::journal::{
    Attempt, CheckVerdict, ChecksReceipt, Conflicting, Ending, Finish, MergeReceipt, TargetState,
};
use crate::radar;
use crate::refusal::{Code, Refusal};
use crate::retry::{Backoff, noticing, until_done, while_store_fails};
use crate::task::spawn;
use crate::workspace::git::{self, GitError};
use crate::workspace::merge::{Merge, Merged, Strategy, merge};
use crate::workspace::signing::Signing;
use crate::world::World;

/// One finish while it is carried out. `attempt` and `finish` have their repositories in the same order.
pub struct FinishTask {
    pub(super) world: Arc<World>,
    /// The attempt whose worktrees this task holds: the finished one, or, for a finish of another host's
    /// attempt, the one whose branch gets the work.
    pub(super) attempt: Attempt,
    pub(super) finish: Finish,
    /// The finished attempt is another host's, which has committed its work.
    pub(super) is_other_hosts: bool,
    owner: ActorRef<AttemptMessage>,
    lend: LoanFn,
    /// The checks that are to be written in the same transaction as the receipt.
    planned: Option<Submission>,
    /// How commits are signed, by the index of their repository.
    pub(super) signings: BTreeMap<usize, Arc<Signing>>,
}

impl FinishTask {
    /// `attempt` is the finished one, or the target of another host's attempt: the id in `finish` says which.
    pub fn new(
        world: Arc<World>,
        attempt: Attempt,
        finish: Finish,
        owner: ActorRef<AttemptMessage>,
        lend: LoanFn,
    ) -> Self {
        let is_other_hosts = finish.attempt_id != attempt.attempt_id;
        let signings = BTreeMap::new();
        Self { world, attempt, finish, is_other_hosts, owner, lend, planned: None, signings }
    }

    /// Starts the task. It takes the steps that are left once `worktrees` is ready, and calls `then` at
    /// its end, when the worktrees are free again.
    pub fn spawn<L>(
        self,
        worktrees: impl Future<Output = L> + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Finishing
    where
        L: Send + 'static,
    {
        let finish = self.finish.finish_id;
        let task = spawn(async move {
            let worktrees = worktrees.await;
            if self.is_other_hosts {
                Box::pin(self.apply()).await;
            } else {
                Box::pin(self.run()).await;
            }
            drop(worktrees);
            then();
        });
        Finishing::new(finish, task.abort_handle())
    }

    /// Starts a task that ends the finish with a refusal. It needs no worktrees.
    pub fn spawn_refusal(self, refusal: Refusal) -> Finishing {
        Finishing::new(self.finish.finish_id, spawn(self.refuse(refusal)).abort_handle())
    }

    /// The finish of this host's attempt, from where its receipt says to its end.
    async fn run(mut self) {
        snapshot::before_finish(&self.world, &self.attempt).await;
        if !self.delegate().await {
            return;
        }
        let what = format!("attempt {}: borrowing worktrees", self.attempt.attempt_id);
        let borrowed = while_store_fails(what, || self.borrow()).await;
        let _others = borrowed.unwrap_or_else(|refusal| {
            // The next step is the end then. But a move that may have begun before a restart is completed:
            // a branch moves safely also without the target attempt's worktrees.
            let receipt = &mut self.finish.receipt;
            if receipt.repos.iter().all(|repo| repo.merged.is_none()) {
                receipt.ending.get_or_insert(Ending::Refused(refusal));
            }
            None
        });
        self.take_steps().await;
    }

    /// Takes the steps that are left, and writes the end. A step that fails while the store can't be used is
    /// taken again.
    pub(super) async fn take_steps(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let step = next(&self.finish);
            if let Step::End(ending) = step {
                return if self.is_other_hosts {
                    self.applied().await;
                } else {
                    self.end(ending).await;
                };
            }
            match noticing(Box::pin(self.take(&step))).await {
                // The store was away meanwhile, so this may be no failure of the step.
                (Err(refusal), true) => {
                    let id = self.attempt.attempt_id;
                    backoff.wait(format!("attempt {id}: {step:?} of its finish"), refusal).await;
                }
                (stepped, _) => {
                    backoff = Backoff::default();
                    self.note(&step, stepped).await;
                }
            }
        }
    }

    /// Takes one step. `Err` is the refusal that the finish ends with.
    async fn take(&mut self, step: &Step) -> Result<Stepped, Refusal> {
        match step {
            Step::Commit(at) => self.commit(*at).await,
            Step::Compute(at) => self.compute(*at).await,
            Step::Plan => self.plan().await,
            Step::Await(run) => Ok(Stepped::Checked(self.verdict(*run).await)),
            Step::Move(at) => self.move_target(*at, false).await,
            Step::Return(at) => self.move_target(*at, true).await,
            Step::Discard => self.discard().await,
            Step::DeleteBranch(at) => self.delete_branch(*at).await,
            Step::Push(at) => self.push(*at).await,
            Step::Propose(at) => self.propose(*at).await,
            Step::End(_) => Err(Refusal::internal("the end of a finish is no step")),
        }
    }

    /// Adds the result of a step to the receipt, and writes the receipt.
    pub(super) async fn note(&mut self, step: &Step, stepped: Result<Stepped, Refusal>) {
        record(&mut self.finish.receipt, step, stepped.unwrap_or_else(Stepped::Refused));
        for (at, signing) in &self.signings {
            let unsigned = &mut self.finish.receipt.repos[*at].unsigned;
            *unsigned = unsigned.take().or_else(|| signing.failure().map(str::to_owned));
        }
        self.keep().await;
    }

    /// The worktrees of the attempt whose branch gets the work, on loan. `None`: the target is a person's
    /// branch.
    async fn borrow(&self) -> Result<Option<WorktreeLoan>, Refusal> {
        let Some(onto) = self.finish.request.onto else { return Ok(None) };
        let id = self.finish.finish_id;
        let lent = (self.lend)(onto, id).await?;
        // This keeps the target attempt on this host until its branch has the work.
        let what = format!("attempt {onto}: applying work to it");
        if until_done(what, || self.world.journal.begin_applying(id)).await {
            return Ok(Some(lent));
        }
        let message = format!("attempt {onto} has left this host");
        Err(Refusal::new(Code::AttemptRunning, message).hint("Call the tool again."))
    }

    /// Writes the receipt, and with it the run of checks that the receipt names. Tries until the store
    /// takes it.
    pub(super) async fn keep(&mut self) {
        let Self { world, finish, attempt, planned, .. } = self;
        let finish = &*finish;
        let what = format!("attempt {}: writing the receipt of a finish", attempt.attempt_id);
        let Some(submission) = planned.take() else {
            return until_done(what, || world.journal.keep_finish(finish)).await;
        };
        let task = attempt.task_id;
        until_done(what, || world.journal.plan_finish_checks(finish, task, &submission)).await;
        world.check_signals.planned.notify_one();
    }

    async fn end(mut self, ending: Ending) {
        self.write_end(ending).await;
    }

    /// Writes how the finish has ended, tries until the store takes it, and has the radar look at the
    /// attempt.
    pub(super) async fn write_end(&mut self, ending: Ending) {
        self.finish.state = ending.state();
        if let Ending::Refused(refusal) = ending {
            self.finish.error = Some(with_left(refusal, &self.finish.left()));
        }
        let Self { world, finish, attempt, .. } = &*self;
        let (id, state) = (attempt.attempt_id, finish.state);
        tracing::info!(attempt = %id, finish = %finish.finish_id, ?state, "a finish has ended");
        let what = format!("attempt {id}: writing the end of a finish");
        until_done(what, || world.journal.end_finish(finish)).await;
        radar::look(world, &[id]);
    }

    /// Has the owner collect the worktrees, unless that is done. The commits that were saved are read
    /// from the references, because a collection before a restart may have saved them.
    async fn discard(&self) -> Result<Stepped, Refusal> {
        let id = self.attempt.attempt_id;
        let how = Collect { is_dry: false, snapshot: true, by_finish: true };
        let collected = ractor::call!(self.owner, |port| AttemptMessage::Collect(how, port));
        let collected = collected.map_err(|error| Refusal::internal(error.to_string()))??;
        if let Some(kept) = collected.filter(|it| it.verdict == CollectVerdict::Kept) {
            let why = kept.reason.unwrap_or_default();
            let message = format!("attempt {id} can't be discarded: {why}");
            return Err(Refusal::new(Code::WorkspaceFailed, message)
                .hint("Call the tool again when what the message says is over."));
        }
        let mut snapshots = Vec::with_capacity(self.attempt.repos.len());
        let commit = format!("refs/provost/snapshots/{id}^{{commit}}");
        for repo in &self.attempt.repos {
            let show = ["rev-parse", "--verify", "--quiet", &commit];
            snapshots.push(git::run(Path::new(&repo.path), &show).await.ok());
        }
        Ok(Stepped::Discarded(snapshots))
    }

    /// Computes the commit that the target branch is to move to. No branch, index or file changes.
    ///
    /// # Errors
    /// The target branch is gone, or the strategy does not fit: the refusal names one that does.
    async fn compute(&mut self, at: usize) -> Result<Stepped, Refusal> {
        let signing = self.signing(at).await;
        let repo = &self.attempt.repos[at];
        let request = &self.finish.request;
        let into = request.repos[at].into.clone().unwrap_or_default();
        let failed = |error: GitError| git_failed("the merge can't be computed", repo, &error);
        let path = PathBuf::from(&repo.path);
        let Some(old) = git::branch_tip(&path, &into).await.map_err(failed)? else {
            return Err(branch_gone(repo, &into));
        };
        let history = self.world.history(self.finish.attempt_id, repo).await?;
        let what = Merge {
            repo: path,
            history,
            scratch: self.world.settings.folders.scratch.clone(),
            target: old.clone(),
            source: self.finish.receipt.repos[at].commit.clone().unwrap_or_default(),
            strategy: request.strategy,
            message: request.message.clone(),
            by: self.by(at)?,
            signing: signing.map_err(failed)?,
        };
        let computed = |new, tree| {
            Ok(Stepped::Computed(MergeReceipt {
                old: old.clone(),
                new,
                tree,
                place: TargetState::Old,
            }))
        };
        match merge(&what).await.map_err(failed)? {
            Merged::Commit { commit, tree } => computed(commit, Some(tree)),
            Merged::Nothing => computed(old.clone(), None),
            Merged::Conflicts { conflicts, at: commit } => {
                let target = self.kept_target(repo, &old).await;
                let repo = request.repos[at].name.clone();
                Ok(Stepped::Conflicts(Conflicting { repo, at: commit, target, conflicts }))
            }
            Merged::Diverged => {
                let why = format!("{into} of {} has commits of its own", repo.path);
                Err(other_strategy(&why, Strategy::Rebase))
            }
            Merged::NotLinear { at } => {
                let why = format!("{at} is a merge commit, which can't be replayed on {into}");
                Err(other_strategy(&why, Strategy::Merge))
            }
            Merged::Lacks { begun } => {
                let why = format!(
                    "{into} does not have {begun}, which the attempt began from, and would get it"
                );
                Err(other_strategy(&why, Strategy::Squash))
            }
        }
    }

    /// Plans the checks on the computed commits. The run is written with the receipt, in [`Self::keep`].
    async fn plan(&mut self) -> Result<Stepped, Refusal> {
        let attempt = &self.attempt;
        let project = (attempt.project_id, &*attempt.project_name);
        let nothing = ChecksReceipt { run_id: None, passed: Some(true) };
        // Another attempt's branch is work in progress: its own checks come later.
        if self.finish.request.onto.is_some() {
            return Ok(Stepped::Planned(nothing));
        }
        let checks = planned(&self.world, project, Some(attempt)).await.map_err(|why| {
            let trust = trust_command(attempt.attempt_id);
            Refusal::new(Code::WorkspaceFailed, why).hint(format!("Run {trust}, then try again."))
        })?;
        if checks.is_empty() {
            return Ok(Stepped::Planned(nothing));
        }
        let results = attempt.repos.iter().zip(&self.finish.receipt.repos);
        let repos = results.map(|(repo, receipt)| CheckedRepo {
            name: repo.name.clone(),
            path: repo.path.clone(),
            commit: receipt.merged.clone().map(|merged| merged.new).unwrap_or_default(),
            includes_uncommitted: false,
        });
        let submission = Submission {
            host: self.world.host.id.clone(),
            run_id: CheckRunId::new(),
            attempt_id: Some(attempt.attempt_id),
            repos: repos.collect(),
            is_empty_diff: None,
            checks,
        };
        let run_id = Some(submission.run_id);
        self.planned = Some(submission);
        Ok(Stepped::Planned(ChecksReceipt { run_id, passed: None }))
    }

    /// Waits for the verdict of a run of checks. `false` also if the run's row is gone.
    async fn verdict(&self, run: CheckRunId) -> bool {
        let World { journal, check_signals, .. } = &*self.world;
        loop {
            // Registered before the read, so that a verdict that comes after the read wakes this.
            let concluded = check_signals.concluded.notified();
            let found = until_done("reading a check run", || journal.check_run(run)).await;
            match found.map(|run| run.verdict) {
                Some(None) => concluded.await,
                Some(Some(verdict)) => return verdict == CheckVerdict::Verified,
                None => return false,
            }
        }
    }
}

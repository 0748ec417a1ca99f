//! A finish whose work goes to an attempt of another host. Two owners take its steps in turns, and its row
//! says whose turn it is, so each continues with its part after a restart.
//!
//! ```text
//!  host of the finished attempt (A)        the row                host of the target attempt (B)
//!  commit, write the commits as bundles ─▶ all commits
//!                                          `applied_by` = B    ◀─ begin_applying
//!                                          the receipt         ◀─ compute, move: the steps, as on one host
//!                                          `applied_at`        ◀─ end_applying
//!  end the finish                       ◀─
//! ```
//!
//! If B is given up, A takes the finish back and ends it with a refusal, unless a registered host has begun
//! to apply it.

use std::path::Path;
use std::sync::Arc;

use super::task::FinishTask;
use super::{Step, Stepped, next};
use crate::attempt::{bundles, prepare, snapshot};
use crate::ids::{AttemptId, RepoId};
use crate::journal::{AttemptRepo, Ending};
use crate::radar;
use crate::refusal::{Code, Refusal};
use crate::retry::{Backoff, noticing, outlasting_store, until_done};

impl FinishTask {
    /// A's part, if the target attempt is another host's: commits, waits until that host has applied the
    /// work, and ends the finish; `false`. `true`: the target is on this host, which takes the other
    /// steps too.
    pub(super) async fn delegate(&mut self) -> bool {
        let Some(onto) = self.finish.request.onto.filter(|_| self.world.host.has_lease) else {
            return true;
        };
        let what = format!("attempt {}: applying its work", self.attempt.attempt_id);
        let (world, own) = (Arc::clone(&self.world), self.world.host.id.clone());
        let mut backoff = Backoff::default();
        loop {
            let host = until_done(what.clone(), || world.journal.host_of_target(onto)).await;
            if host.as_ref() == Some(&own) {
                return true;
            }
            let ending = match next(&self.finish) {
                Step::Commit(at) => {
                    match noticing(Box::pin(self.commit_for_others(at))).await {
                        (Err(refusal), true) => backoff.wait(&what, refusal).await,
                        (committed, _) => self.note(&Step::Commit(at), committed).await,
                    }
                    continue;
                }
                // The ending is in the receipt although commits are missing: a commit was refused.
                Step::End(ending) if !self.has_all_commits() => Some(ending),
                _ => self.other_hosts_ending(onto, host).await,
            };
            if let Some(ending) = ending {
                self.write_end(ending).await;
                return false;
            }
            world.journal.finish_news().await;
        }
    }

    /// Whether A has done its part.
    fn has_all_commits(&self) -> bool {
        self.finish.receipt.repos.iter().all(|repo| repo.commit.is_some())
    }

    /// How a finish that another host applies has ended; `None`: it has not.
    async fn other_hosts_ending(
        &mut self,
        onto: AttemptId,
        host: Option<String>,
    ) -> Option<Ending> {
        let (world, id) = (Arc::clone(&self.world), self.finish.finish_id);
        let what = format!("finish {id}: reading how far it is");
        let found = until_done(what, || world.journal.finish(id)).await?;
        let is_applied = found.applied_at.is_some();
        let mut is_back = found.applied_by.as_ref() == Some(&world.host.id);
        self.finish = found;
        if is_applied {
            self.have_targets().await;
            return Some(match next(&self.finish) {
                Step::End(ending) => ending,
                step => Ending::Refused(Refusal::internal(format!("{step:?} was left out"))),
            });
        }
        let host = host.unwrap_or_default();
        if !is_back && !host.is_empty() && world.journal.is_given_up(&host).await {
            is_back = world.journal.take_back(id).await.unwrap_or(false);
        }
        is_back.then(|| {
            let message =
                format!("the work was not applied to attempt {onto}: its host {host} is lost");
            let refusal = Refusal::new(Code::DaemonUnavailable, message)
                .hint("Call the tool again. Another host takes that attempt then, if it can.")
                .detail("host", host);
            Ending::Refused(refusal)
        })
    }

    /// After conflicts: gets the target's commit, so that the agent can merge it here.
    async fn have_targets(&mut self) {
        let Some(Ending::Conflicts(found)) = &mut self.finish.receipt.ending else { return };
        let repo = self.attempt.repos.iter().find(|repo| repo.name == found.repo);
        if let (Some(repo), Some(target)) = (repo, found.target.clone())
            && let Err(why) = bundles::have_commit(&self.world, repo, &target).await
        {
            tracing::warn!(attempt = %self.attempt.attempt_id, why, "a conflict's target");
            found.target = None;
        }
    }

    /// Commits the work in a repository, and writes the commits as a bundle for other hosts.
    async fn commit_for_others(&mut self, at: usize) -> Result<Stepped, Refusal> {
        let stepped = self.commit(at).await?;
        let Stepped::Committed(commit) = &stepped else { return Ok(stepped) };
        let repo = &self.attempt.repos[at];
        let onto = self.finish.request.repos[at].onto.as_ref().map(|onto| onto.repo_id);
        self.keep_commit(repo, onto.unwrap_or(repo.repo_id), commit).await?;
        Ok(stepped)
    }

    /// Writes a bundle of a commit. `id`: the repository under which the other host looks for it.
    async fn keep_commit(
        &self,
        repo: &AttemptRepo,
        id: RepoId,
        commit: &str,
    ) -> Result<(), Refusal> {
        let kept = bundles::of_base(&self.world, id, Path::new(&repo.path), commit).await;
        kept.map_err(|error| {
            let message =
                format!("the commits in {} can't be kept for other hosts: {error}", repo.path);
            Refusal::new(Code::WorkspaceFailed, message)
        })
    }

    /// B's part: gets the commits of the other host's attempt, and takes the steps up to the end.
    pub(super) async fn apply(mut self) {
        if !self.begins().await {
            return;
        }
        snapshot::before_finish(&self.world, &self.attempt).await;
        let what = format!("attempt {}: having the work here", self.attempt.attempt_id);
        if self.finish.receipt.repos.iter().all(|repo| repo.merged.is_none())
            && let Err(why) = outlasting_store(what, || Box::pin(self.have_work())).await
        {
            let refusal = Refusal::new(Code::WorkspaceFailed, why);
            self.finish.receipt.ending.get_or_insert(Ending::Refused(refusal));
        }
        self.take_steps().await;
    }

    /// Writes that B has done its part. A ends the finish.
    pub(super) async fn applied(self) {
        let (journal, finish) = (&self.world.journal, &self.finish);
        let what = format!("attempt {}: applying work to it", self.attempt.attempt_id);
        until_done(what, || journal.end_applying(finish)).await;
        radar::look(&self.world, &[self.attempt.attempt_id]);
    }

    /// B's part if B can't apply the work now: the receipt gets the refusal.
    pub(super) async fn refuse(mut self, refusal: Refusal) {
        if self.begins().await {
            self.finish.receipt.ending.get_or_insert(Ending::Refused(refusal));
            self.take_steps().await;
        }
    }

    /// Notes that this host applies the work. `false`: the finish has ended, or the target attempt is on
    /// another host by now.
    async fn begins(&self) -> bool {
        let (journal, id) = (&self.world.journal, self.finish.finish_id);
        let what = format!("attempt {}: applying work to it", self.attempt.attempt_id);
        until_done(what, || journal.begin_applying(id)).await
    }

    /// Gets the commits of the finished attempt. `Err` is a sentence.
    async fn have_work(&self) -> Result<(), String> {
        let attempt = &self.attempt;
        if attempt.repos.len() != self.finish.request.repos.len() {
            return Err(format!("attempt {} does not work on all of them", attempt.attempt_id));
        }
        prepare::real_worktrees(&self.world, attempt).await?;
        for (repo, receipt) in attempt.repos.iter().zip(&self.finish.receipt.repos) {
            if let Some(commit) = &receipt.commit {
                bundles::have_commit(&self.world, repo, commit).await?;
            }
        }
        Ok(())
    }

    /// For conflicts on B: writes the target's commit as a bundle, so that A can get it. `None`: A has
    /// the branch itself, or the bundle can't be written.
    pub(super) async fn kept_target(&self, repo: &AttemptRepo, commit: &str) -> Option<String> {
        if !self.is_other_hosts {
            return None;
        }
        match self.keep_commit(repo, repo.repo_id, commit).await {
            Ok(()) => Some(commit.to_owned()),
            Err(refusal) => {
                tracing::warn!(finish = %self.finish.finish_id, %refusal, "a conflict's target");
                None
            }
        }
    }
}

//! The step that moves a target branch, by [`advance`]. Between the begin and the end of a move, the branch
//! and the checkouts that show it may be anywhere on the way, so the step is tried again until that is
//! known: an error of git does not end it.

use std::path::PathBuf;

use super::Stepped;
use super::refusals::{branch_gone, git_failed};
use super::task::FinishTask;
use crate::refusal::{Code, Refusal, run_first};
use crate::retry::{Backoff, until_done};
use crate::workspace::advance::{Advance, Advanced, InTheWay, advance};
use crate::workspace::git::GitError;
use crate::workspace::source::Source;

impl FinishTask {
    /// Moves a target branch to the computed commit, or back (`is_return`) to where it was.
    ///
    /// # Errors
    /// A checkout is in the way, the branch is gone, or the repository is. Nothing has moved then.
    pub(super) async fn move_target(
        &mut self,
        at: usize,
        is_return: bool,
    ) -> Result<Stepped, Refusal> {
        let repo = self.attempt.repos[at].clone();
        let request = &self.finish.request.repos[at];
        let merged = &self.finish.receipt.repos[at].merged;
        let (Some(into), Some(merged)) = (request.into.clone(), merged.clone()) else {
            return Ok(Stepped::Moved);
        };
        let (old, new) =
            if is_return { (merged.new, merged.old) } else { (merged.old, merged.new) };
        let to = Advance {
            repo: PathBuf::from(&repo.path),
            scratch: self.world.settings.folders.scratch.clone(),
            branch: into.clone(),
            old,
            new,
            mark: self.mark(),
            reason: format!("provost: finish of {}", self.attempt.branch),
            of_attempt: self.onto(at).await?,
        };
        let what = format!("the branch {into} can't be moved");
        let failed = |error: &GitError| git_failed(&what, &repo, error);
        let mut backoff = Backoff::default();
        let moved = loop {
            let (to, path) = (to.clone(), to.repo.clone());
            let moving = async move { Box::pin(advance(&to)).await };
            match self.world.repositories.in_turn(&path, moving).await {
                // An error does not say where the branch and its checkouts are now.
                Err(error) if path.exists() => {
                    self.wait(failed(&error).message, &mut backoff).await;
                }
                moved => break moved,
            }
        };
        match moved.map_err(|error| failed(&error))? {
            Advanced::Failed(error) => Err(failed(&error)),
            Advanced::Moved => Ok(Stepped::Moved),
            Advanced::Elsewhere(Some(_)) => Ok(Stepped::Elsewhere),
            Advanced::Elsewhere(None) => Err(branch_gone(&repo, &into)),
            Advanced::InTheWay { checkout, why } => {
                let checkout = checkout.display().to_string();
                let message = format!("the checkout {checkout} of {into} can't follow: {why}");
                let refusal = Refusal::new(Code::CheckoutInTheWay, message);
                let refusal = way_out(&why, &checkout).into_iter().fold(refusal, Refusal::hint);
                Err(refusal.detail("checkout", checkout))
            }
        }
    }

    /// The repository of the attempt whose branch gets the work: that attempt's own repository and its
    /// worktree follow its branch. `None`: the target is a person's branch.
    async fn onto(&self, at: usize) -> Result<Option<Source>, Refusal> {
        let settings = &self.world.settings;
        let request = &self.finish.request;
        let Some(onto) = request.onto else { return Ok(None) };
        if self.is_other_hosts {
            return Ok(Some(settings.source(&self.attempt, &self.attempt.repos[at])));
        }
        let what = format!("attempt {onto}: reading where its work is");
        let other = until_done(what, || self.world.journal.attempt(onto)).await;
        let named = request.repos[at].onto.as_ref().map(|it| &it.name);
        let source = other.as_ref().and_then(|other| {
            let repo = other.repos.iter().find(|repo| Some(&repo.name) == named)?;
            Some(settings.source(other, repo))
        });
        let gone = || Refusal::internal(format!("attempt {onto} has no such repository"));
        source.map(Some).ok_or_else(gone)
    }

    /// Shows in the attempt's status why the step is not done yet, and waits for its next try.
    async fn wait(&mut self, why: String, backoff: &mut Backoff) {
        if self.finish.receipt.waits_for.as_ref() != Some(&why) {
            self.finish.receipt.waits_for = Some(why.clone());
            self.keep().await;
        }
        backoff
            .wait(format!("attempt {}: a step of its finish", self.attempt.attempt_id), why)
            .await;
    }
}

/// The hint for a checkout that can't follow: what a person does about its state, and where. `None`: the
/// error code has a hint of its own.
fn way_out(why: &InTheWay, checkout: &str) -> Option<String> {
    match why {
        InTheWay::Locked { lock } => Some(format!(
            "Call the tool again when the git command, or the editor, that works there has ended. If none \
             works there, one was killed: its lock is `{}`.",
            lock.display()
        )),
        InTheWay::UnderWay { ended_by, .. } => ended_by.map(|it| run_first(it, checkout)),
        InTheWay::NotIt => Some(format!(
            "Run `git worktree repair` in `{checkout}`, or `git worktree prune` in the repository if the \
             checkout is not needed any more, then call the tool again."
        )),
        InTheWay::Git(_) | InTheWay::Io(_) => {
            Some("Fix what the message says, then call the tool again.".to_owned())
        }
        InTheWay::Files(_) => None,
    }
}

//! The step that moves a target branch. Between its begin and its end the branch, and the checkouts
//! that show it, may be anywhere on the way: it is tried again until that is known.

use std::path::PathBuf;

use super::Stepped;
use super::task::{FinishTask, branch_gone, git_failed};
use crate::refusal::{Code, Refusal};
use crate::retry::PAUSE;
use crate::workspace::advance::{Advance, Advanced, advance};
use crate::workspace::git::GitError;

impl FinishTask {
    /// Moves a target to the result, or back to where it was.
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
            scratch: self.world.settings.scratch_dir.clone(),
            branch: into.clone(),
            old,
            new,
            mark: self.mark(),
            reason: format!("provost: finish of {}", self.attempt.branch),
        };
        let what = format!("the branch {into} can't be moved");
        let failed = |error: &GitError| git_failed(&what, &repo, error);
        let moved = loop {
            let (to, path) = (to.clone(), to.repo.clone());
            let moving = async move { Box::pin(advance(&to)).await };
            match self.world.repositories.in_turn(&path, moving).await {
                // An error says nothing about where the branch is, or its checkouts are.
                Err(error) if path.exists() => self.wait(failed(&error).message).await,
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
                Err(Refusal::new(Code::CheckoutInTheWay, message).detail("checkout", checkout))
            }
        }
    }

    /// Has the status say why the step is not done yet, until its next try.
    async fn wait(&mut self, why: String) {
        let id = self.attempt.attempt_id;
        tracing::error!(attempt = %id, %why, "a step of a finish failed; it is tried again");
        if self.finish.receipt.waits_for.as_ref() != Some(&why) {
            self.finish.receipt.waits_for = Some(why);
            self.keep().await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

//! The step that commits what the worktree holds, once no other program has the lock of its index. It
//! writes to the attempt's own repository and to the attempt's branch in the person's.

use std::path::Path;
use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::Stepped;
use super::refusals::not_committed;
use super::task::FinishTask;
use crate::attempt::{prepare, provision};
use crate::journal::AttemptRepo;
use crate::refusal::{Code, Refusal};
use crate::workspace::commit::{Commit, CommitError, commit};
use crate::workspace::git::GitError;
use crate::workspace::index_lock::{IN_TIME, PAUSE};
use crate::workspace::merge::Signature;
use crate::workspace::signing::Signing;

impl FinishTask {
    /// Who is the author and committer of what is committed in a repository.
    ///
    /// # Errors
    /// The request has no signature, which only one that commits nothing may lack.
    pub(super) fn by(&self, at: usize) -> Result<Signature, Refusal> {
        let request = &self.finish.request;
        let by = request.repos[at].by.as_ref().or(request.by.as_ref()).cloned();
        by.ok_or_else(|| Refusal::internal("a finish that commits has no signature"))
    }

    /// How commits in a repository are signed: as the person's own configuration says. Read once for each
    /// repository, because it notes whether signing has failed.
    pub(super) async fn signing(&mut self, at: usize) -> Result<Arc<Signing>, GitError> {
        if let Some(known) = self.signings.get(&at) {
            return Ok(Arc::clone(known));
        }
        let repo = Path::new(&self.attempt.repos[at].path);
        let signing = Signing::of_person(repo, &self.world.settings.folders.scratch).await?;
        Ok(Arc::clone(self.signings.entry(at).or_insert(signing)))
    }

    /// The text by which this finish recognizes its own locks and changes of git's files, in this daemon and
    /// the next.
    pub(super) fn mark(&self) -> String {
        format!("provost {}", self.finish.finish_id)
    }

    /// Commits what git does not ignore in the worktree, on the attempt's branch. The result is a function of
    /// files, message and signature, so a step that is taken again finds the same commit.
    pub(super) async fn commit(&mut self, at: usize) -> Result<Stepped, Refusal> {
        let signing = self.signing(at).await;
        let linked = |sentence| Refusal::new(Code::WorkspaceFailed, sentence);
        prepare::real_worktrees(&self.world, &self.attempt).await.map_err(linked)?;
        prepare::whole(&self.world, &self.attempt).await.map_err(linked)?;
        let repo = &self.attempt.repos[at];
        let request = &self.finish.request;
        let source = provision::source(&self.world, &self.attempt, repo).await;
        let worktree = self.world.settings.source(&self.attempt, repo).worktree();
        let failed = |error: CommitError| not_committed(repo, &worktree, &error);
        let source = source.map_err(|error| failed(error.into()))?;
        let what = Commit {
            source,
            message: request.message.clone(),
            author: self.by(at)?,
            signing: signing.map_err(|error| failed(error.into()))?,
            mark: self.mark(),
        };
        self.commit_unlocked(repo, what).await.map(Stepped::Committed).map_err(failed)
    }

    /// Commits once no other program has the lock of the worktree's index. It sets aside a lock that a killed
    /// git left, and waits `IN_TIME` for a lock that is held.
    async fn commit_unlocked(
        &self,
        repo: &AttemptRepo,
        what: Commit,
    ) -> Result<String, CommitError> {
        let mut committed = self.commit_in_turn(repo, what.clone()).await;
        if matches!(committed, Err(CommitError::Locked)) {
            // Mostly a git of the agent left it, which a stop has killed.
            prepare::release_locks(&self.world, &self.attempt).await;
            committed = self.commit_in_turn(repo, what.clone()).await;
        }
        let until = Instant::now() + IN_TIME;
        while matches!(committed, Err(CommitError::Locked)) && Instant::now() < until {
            sleep(PAUSE).await;
            committed = self.commit_in_turn(repo, what.clone()).await;
        }
        committed
    }

    /// Commits in the turn that the repository's owner grants.
    async fn commit_in_turn(
        &self,
        repo: &AttemptRepo,
        what: Commit,
    ) -> Result<String, CommitError> {
        let committing = async move { Box::pin(commit(&what)).await };
        let committed = self.world.repositories.in_turn(Path::new(&repo.path), committing).await;
        committed.map(|(commit, _)| commit)
    }
}

//! What a report of completion refers to: the worktrees as they are at the moment of the report. They are
//! frozen before the report is answered, because the agent may continue to write after the answer.

use std::time::Duration;

use crate::attempt;
use crate::attempt::provision::{self, checks};
use crate::failpoint;
use crate::ids::{AttemptId, CheckRunId, TaskId};
use crate::journal::checks::{CheckedRepo, Submission};
use crate::journal::{Attempt, Repo};
use crate::refusal::{Code, Refusal};
use crate::task::spawn;
use crate::workspace::git;
use crate::workspace::snapshot::SnapshotError;
use crate::workspace::worktree_commit;
use crate::world::World;

use super::folder::Folder;

/// Before another try to freeze a worktree whose files changed while git read them.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(50)];

/// What is submitted, with its git objects in the folder of the future run. Dropping it removes the
/// objects, unless it was [kept](Self::keep).
#[derive(Debug)]
pub struct FrozenSubmission {
    /// What the report's transaction writes down.
    pub submission: Submission,
    /// The folder whose objects a drop removes; `None` once they are kept.
    folder: Option<Folder>,
}

impl FrozenSubmission {
    /// Keeps the objects. Call it once the report is written down: its run needs them.
    pub fn keep(mut self) {
        self.folder = None;
    }
}

impl Drop for FrozenSubmission {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            spawn(async move { folder.strip().await });
        }
    }
}

/// Freezes what is submitted for a task: the worktrees of the reporting attempt; without one, those of
/// the task's latest attempt; without worktrees, the HEADs of the project's repositories. The checks that
/// are to run are read at the same moment.
///
/// # Errors
/// The task is not on the board. The attempt is another host's. The project has checks, and they, or the
/// files that they are to run on, can't be read.
pub async fn freeze_submission(
    world: &World,
    task: TaskId,
    reporter: Option<AttemptId>,
    latest: Option<AttemptId>,
) -> Result<FrozenSubmission, Refusal> {
    let context = world.journal.start_context(task).await?;
    let run_id = CheckRunId::new();
    let folder = Folder::of(world, run_id);
    let attempt = match reporter.or(latest) {
        Some(id) => with_worktrees(world, id).await?,
        None => None,
    };
    let project = (context.task.project_id, &*context.project_name);
    let planned = checks::planned(world, project, attempt.as_ref()).await;
    let checks = planned.map_err(|why| Refusal::new(Code::WorkspaceFailed, why))?;
    let mut frozen = FrozenSubmission {
        submission: Submission {
            host: world.host.id.clone(),
            run_id,
            attempt_id: reporter,
            repos: Vec::new(),
            is_empty_diff: None,
            checks,
        },
        folder: Some(folder.clone()),
    };
    let taken = match &attempt {
        Some(attempt) => worktrees(world, attempt, &folder).await,
        None => heads(&context.repos).await,
    };
    failpoint::hit("delivery", "taken");
    let submission = &mut frozen.submission;
    match taken {
        Ok(taken) => (submission.repos, submission.is_empty_diff) = taken,
        // A project without checks takes the report anyway.
        Err(refusal) if submission.checks.is_empty() => {
            tracing::warn!(%task, %refusal, "the submitted work can't be read");
        }
        Err(refusal) => return Err(refusal),
    }
    Ok(frozen)
}

/// The attempt, if it still has worktrees. An attempt of another host is refused: its worktrees are not
/// here.
async fn with_worktrees(world: &World, id: AttemptId) -> Result<Option<Attempt>, Refusal> {
    let has = attempt::has_worktrees(world, id).await.map_err(|error| {
        Refusal::new(Code::WorkspaceFailed, format!("the folder of attempt {id}: {error}"))
    })?;
    let attempt = world.journal.attempt(id).await?;
    if let Some(attempt) = &attempt {
        world.host.require(attempt)?;
    }
    Ok(attempt.filter(|_| has))
}

/// The commits, and whether they equal the merge bases with the target branches; `None`: unknown.
type Taken = Result<(Vec<CheckedRepo>, Option<bool>), Refusal>;

/// Freezes each worktree of an attempt as a commit among the objects of the run.
async fn worktrees(world: &World, attempt: &Attempt, folder: &Folder) -> Taken {
    let mut repos = Vec::with_capacity(attempt.repos.len());
    let mut is_empty = true;
    for repo in &attempt.repos {
        let objects = folder.objects(&repo.name);
        let freeze = async || {
            worktree_commit::freeze(&provision::source(world, attempt, repo).await?, &objects).await
        };
        let mut frozen = freeze().await;
        for pause in PAUSES {
            if frozen.as_ref().is_err_and(SnapshotError::may_pass) {
                tokio::time::sleep(pause).await;
                frozen = freeze().await;
            }
        }
        let frozen = frozen.map_err(|error| {
            let message = format!("the submitted work can't be read: {error}");
            Refusal::of_git(message, error.is_shortage())
        })?;
        is_empty &= frozen.is_unchanged;
        repos.push(CheckedRepo {
            name: repo.name.clone(),
            path: repo.path.clone(),
            commit: frozen.commit,
            includes_uncommitted: frozen.includes_uncommitted,
        });
    }
    Ok((repos, Some(is_empty)))
}

/// The commits that are checked out in the person's repositories. Uncommitted changes there do not count.
async fn heads(repos: &[Repo]) -> Taken {
    let mut heads = Vec::with_capacity(repos.len());
    for repo in repos {
        let head = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let commit = git::run(repo.path.as_ref(), &head).await.map_err(|error| {
            let message = format!("the commit that is checked out in {}: {error}", repo.path);
            Refusal::new(Code::WorkspaceFailed, message)
        })?;
        heads.push(CheckedRepo {
            name: repo.name.clone(),
            path: repo.path.clone(),
            commit,
            includes_uncommitted: false,
        });
    }
    Ok((heads, None))
}

//! What the files of a repository, and the configuration over them, say of its worktrees. The files are
//! read from a commit that no agent wrote, never from a worktree in which an agent has worked.

use std::path::{Path, PathBuf};

use super::below;
use crate::journal::{Attempt, AttemptRepo};
use crate::repo_settings::{
    INCLUDE_FILE, REPO_FILE, RepoConfig, RepoSettings, Sourced, read_include,
};
use crate::workspace::committed::{self, CommittedError};
use crate::workspace::git::{self, GitError};
use crate::world::World;

/// Why the settings of a repository can't be had.
#[derive(Debug, thiserror::Error)]
pub enum DeclaredError {
    /// git can't read the file.
    #[error("{file}: {error}")]
    Unreadable { file: &'static str, error: CommittedError },
    /// The repository's file is wrong. `why` names file, line and key.
    #[error("{why} (in commit {commit})")]
    Faulty { why: String, commit: String },
    /// The person's own configuration is wrong; the text names the place.
    #[error("{0}")]
    Configured(String),
}

/// A repository at a commit, to be read.
pub struct Declared<'a> {
    pub repo: &'a Path,
    pub commit: &'a str,
    /// A checkout of the commit, in which nothing has run. If it lacks a file, git need not be asked.
    pub checkout: Option<PathBuf>,
}

impl Declared<'_> {
    /// What the repository's own files say, with the person's settings `over` them, key by key.
    ///
    /// # Errors
    /// A file can't be read or is wrong, or the keys contradict each other.
    pub async fn read(
        &self,
        config: &RepoConfig,
        over: RepoSettings,
    ) -> Result<RepoSettings, DeclaredError> {
        let faulty = |why| DeclaredError::Faulty { why, commit: self.commit.to_owned() };
        let own = match self.text(REPO_FILE).await? {
            Some(text) => (config.read)(&text).map_err(faulty)?,
            None => RepoSettings::default(),
        };
        let worktreeinclude: Option<Sourced<_>> = match self.text(INCLUDE_FILE).await? {
            Some(text) => read_include(&text).map_err(faulty)?,
            None => None,
        };
        let settings = RepoSettings { worktreeinclude, ..own }.under(over);
        match settings.fault() {
            None => Ok(settings),
            Some(fault) if fault.starts_with(REPO_FILE) => Err(faulty(fault)),
            Some(fault) => Err(DeclaredError::Configured(fault)),
        }
    }

    /// The text of a file in the commit; `None`: there is no such file.
    async fn text(&self, file: &'static str) -> Result<Option<String>, DeclaredError> {
        if let Some(checkout) = &self.checkout
            && tokio::fs::symlink_metadata(checkout.join(file)).await.is_err()
        {
            return Ok(None);
        }
        let text = committed::text(self.repo, self.commit, file).await;
        text.map_err(|error| DeclaredError::Unreadable { file, error })
    }
}

/// The settings of a repository of an attempt, whatever its worktree has by now. `Err` is a sentence.
pub async fn of(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<RepoSettings, String> {
    let commit = commit(world, attempt, repo).await.map_err(|why| failed(repo, &why))?;
    read(world, attempt, repo, (&commit, None)).await
}

/// The same right after the worktree was made, which spares git a look.
pub(super) async fn of_made(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<RepoSettings, String> {
    let commit = commit(world, attempt, repo).await.map_err(|why| failed(repo, &why))?;
    // Later worktrees are made from the attempt's branch, which agents write.
    let is_checked_out = attempt.process.turn == 1 && commit == repo.base_commit;
    let checkout =
        is_checked_out.then(|| world.settings.folders.worktrees.join(below(attempt, repo)));
    read(world, attempt, repo, (&commit, checkout)).await
}

async fn read(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
    (commit, checkout): (&str, Option<PathBuf>),
) -> Result<RepoSettings, String> {
    let declared = Declared { repo: Path::new(&repo.path), commit, checkout };
    let config = &world.settings.worktrees.repos;
    let over = config.of(&attempt.project_id.to_string(), &attempt.project_name, &repo.name);
    declared.read(config, over).await.map_err(|error| {
        let advice = match &error {
            DeclaredError::Faulty { .. } => {
                format!(". Fix it on {}, and start another attempt", repo.target_branch)
            }
            DeclaredError::Unreadable { .. } | DeclaredError::Configured(_) => String::new(),
        };
        failed(repo, &format!("{error}{advice}"))
    })
}

fn failed(repo: &AttemptRepo, why: &str) -> String {
    format!("setup of {}: {why}", repo.name)
}

/// The commit whose files count: the attempt's base, or, if an agent wrote that, the tip of a person's
/// branch. `Err` is a sentence.
pub async fn commit(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<String, String> {
    let prefix = &world.settings.worktrees.branch_prefix;
    let is_agents = !prefix.is_empty() && repo.target_branch.starts_with(prefix.as_str());
    if attempt.fork.is_none() && !is_agents {
        return Ok(repo.base_commit.clone());
    }
    let branch = if is_agents {
        default_branch(world, attempt, repo).await?
    } else {
        repo.target_branch.clone()
    };
    let tip = git::branch_tip(Path::new(&repo.path), &branch).await;
    let tip = tip.map_err(|error| error.to_string())?;
    tip.ok_or_else(|| format!("there is no branch {branch}, whose {REPO_FILE} counts"))
}

/// Whether the commit that an attempt begins from is on the default branch of the repository now. `Err` is a
/// sentence.
pub async fn is_on_default_branch(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<bool, String> {
    let branch = default_branch(world, attempt, repo).await?;
    let (path, base) = (Path::new(&repo.path), &repo.base_commit);
    let parted = async {
        match git::branch_tip(path, &branch).await? {
            Some(tip) => git::merge_base(path, base, &tip).await,
            None => Ok::<_, GitError>(None),
        }
    };
    Ok(parted.await.map_err(|error| error.to_string())?.as_ref() == Some(base))
}

/// The default target branch that the project has for the repository now. `Err` is a sentence.
async fn default_branch(
    world: &World,
    attempt: &Attempt,
    repo: &AttemptRepo,
) -> Result<String, String> {
    let context = world.journal.start_context(attempt.task_id).await;
    let repos = context.map_err(|refusal| refusal.message)?.repos;
    let found = repos.into_iter().find(|it| it.repo_id == repo.repo_id);
    found
        .map(|it| it.default_target_branch)
        .ok_or_else(|| format!("{} is no repository of the project any longer", repo.path))
}

//! One repository of an attempt, with all that the rest of the workspace needs to know of it.

use std::path::PathBuf;

use super::own::Own;
use super::parting::History;
use crate::ids::AttemptId;

/// One repository of an attempt: the person's, the attempt's own, the worktree. Only data; nothing needs
/// to exist.
#[derive(Clone, Debug)]
pub struct Source {
    /// The person's repository, or this host's mirror of it.
    pub repo: PathBuf,
    /// The folder of all worktrees. This one is `<worktrees>/<folder>/<name>`.
    pub worktrees: PathBuf,
    /// The attempt's folder there.
    pub folder: String,
    /// The repository's name in its project.
    pub name: String,
    pub attempt: AttemptId,
    /// The attempt's own repository.
    pub own: Own,
    /// The attempt's branch, without `refs/heads/`.
    pub branch: String,
    /// The branch that the work is meant for, without `refs/heads/`.
    pub target_branch: String,
    /// The commit from which the attempt began.
    pub base: String,
    /// What is on record of the attempt's work.
    pub history: History,
    /// The folder for scratch repositories.
    pub scratch: PathBuf,
    /// Paths of files in the worktree that no commit may have, whether or not git ignores them: copied
    /// credentials.
    pub withheld: Vec<String>,
}

impl Source {
    /// The worktree's path. An agent can put a link there; to read it, open it as a
    /// [`Tree`](super::tree::Tree).
    pub fn worktree(&self) -> PathBuf {
        self.worktrees.join(&self.folder).join(&self.name)
    }

    /// The full name of the attempt's branch.
    pub fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }
}

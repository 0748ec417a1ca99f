//! One repository of an attempt: where the person's is, its own one, and the worktree.

use std::path::PathBuf;

use super::own::Own;
use super::parting::History;
use crate::ids::AttemptId;

#[derive(Clone, Debug)]
pub struct Source {
    pub repo: PathBuf,
    /// The worktree is `<worktrees>/<folder>/<name>`.
    pub worktrees: PathBuf,
    pub folder: String,
    pub name: String,
    pub attempt: AttemptId,
    /// The attempt's own repository.
    pub own: Own,
    pub branch: String,
    pub target_branch: String,
    /// The commit that the attempt began from.
    pub base: String,
    /// What is known of the attempt's work.
    pub history: History,
    pub scratch: PathBuf,
    /// Files of the worktree that are in no commit, whether or not git ignores them.
    pub withheld: Vec<String>,
}

impl Source {
    pub fn worktree(&self) -> PathBuf {
        self.worktrees.join(&self.folder).join(&self.name)
    }

    /// The reference of the attempt's branch.
    pub fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }
}

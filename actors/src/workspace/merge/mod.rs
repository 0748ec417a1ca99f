//! Computes the commit that a branch would move to when an attempt's work is merged. Only
//! objects are written: no reference, index or worktree changes, so nothing is ever half-merged.
//!
//! git merges in a scratch repository ([`Trees`]): no merge driver, hook or filter of the
//! repository's configuration runs.

pub mod conflict;
pub(super) mod trees;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::git::{self, Git, GitError};
use conflict::{Conflict, Report};
use trees::Trees;

/// How the commits of an attempt reach the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// A commit with both as parents.
    Merge,
    /// One commit with all changes.
    Squash,
    /// Each commit again, on top of the target.
    Rebase,
    /// The target moves to the attempt's own commit.
    FastForward,
}

/// A name and an address, and a moment in git's own form (`1700000000 +0100`). With the same
/// moment, the same merge gives the same commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    pub name: String,
    pub email: String,
    pub date: String,
}

impl Signature {
    /// Signs what git commits, in these roles.
    pub(super) fn sign(&self, git: &mut Git, roles: &[&str]) {
        for role in roles {
            git.command
                .env(format!("GIT_{role}_NAME"), &self.name)
                .env(format!("GIT_{role}_EMAIL"), &self.email)
                .env(format!("GIT_{role}_DATE"), &self.date);
        }
    }
}

/// What to merge: commits, not names, since names may move meanwhile.
#[derive(Clone, Debug)]
pub struct Merge {
    pub repo: PathBuf,
    /// The folder for scratch repositories.
    pub scratch: PathBuf,
    pub target: String,
    pub source: String,
    pub strategy: Strategy,
    /// Of the commit that `Merge` and `Squash` make.
    pub message: String,
    pub by: Signature,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The target may move to this commit, which has this tree.
    Commit { commit: String, tree: String },
    /// The target has all of it.
    Nothing,
    /// With `Rebase`, `at` is the commit that does not apply.
    Conflicts { conflicts: Vec<Conflict>, at: Option<String> },
    /// The target has commits of its own: it can't be moved forward.
    Diverged,
    /// A merge commit is among those to be replayed.
    NotLinear { at: String },
}

/// Merges.
///
/// # Errors
/// git fails, or the two have no commit in common.
pub async fn merge(merge: &Merge) -> Result<Merged, GitError> {
    let Merge { repo, scratch, target, .. } = merge;
    Merger { merge, trees: Trees::open(repo, scratch, target).await? }.run().await
}

struct Merger<'a> {
    merge: &'a Merge,
    trees: Trees,
}

impl Merger<'_> {
    async fn run(&self) -> Result<Merged, GitError> {
        let Merge { target, source, strategy, .. } = self.merge;
        let Some(base) = git::merge_base(&self.trees.common, target, source).await? else {
            return Err(GitError::Failed(format!("{target} and {source} share no commit")));
        };
        if base == *source {
            return Ok(Merged::Nothing);
        }
        match strategy {
            Strategy::FastForward if base == *target => self.merged(source.clone()).await,
            Strategy::FastForward => Ok(Merged::Diverged),
            Strategy::Rebase => self.rebase(&base).await,
            Strategy::Merge => self.one(&base, &[target, source]).await,
            Strategy::Squash => self.one(&base, &[target]).await,
        }
    }

    async fn merged(&self, commit: String) -> Result<Merged, GitError> {
        let tree = self.tree_of(&commit).await?;
        Ok(Merged::Commit { commit, tree })
    }

    /// All changes in one commit.
    async fn one(&self, base: &str, parents: &[&str]) -> Result<Merged, GitError> {
        let Merge { target, source, message, by, .. } = self.merge;
        let Report { tree, conflicts } = self.trees.merge_shown(base, target, source).await?;
        if !conflicts.is_empty() {
            return Ok(Merged::Conflicts { conflicts, at: None });
        }
        if parents.len() == 1 && tree == self.tree_of(target).await? {
            return Ok(Merged::Nothing);
        }
        let commit = self.commit(&tree, parents, message, by).await?;
        Ok(Merged::Commit { commit, tree })
    }

    /// Each commit once more, without those that change nothing on top of the target.
    async fn rebase(&self, base: &str) -> Result<Merged, GitError> {
        let Merge { target, source, .. } = self.merge;
        if base == target {
            return self.merged(source.clone()).await;
        }
        let range = format!("{target}..{source}");
        let list = ["rev-list", "--reverse", "--topo-order", "--parents", &range];
        let listed = git::run(&self.trees.common, &list).await?;
        let (mut tip, mut tree) = (target.clone(), self.tree_of(target).await?);
        for line in listed.lines() {
            let (at, parent) = match line.split(' ').collect::<Vec<_>>()[..] {
                [at, parent] => (at, parent),
                [at, ..] => return Ok(Merged::NotLinear { at: at.to_owned() }),
                [] => continue,
            };
            let report = self.trees.merge_shown(parent, &tip, at).await?;
            if !report.conflicts.is_empty() {
                let at = Some(at.to_owned());
                return Ok(Merged::Conflicts { conflicts: report.conflicts, at });
            }
            if report.tree != tree {
                tip = self.replay(at, &report.tree, &tip).await?;
                tree = report.tree;
            }
        }
        Ok(if tip == *target { Merged::Nothing } else { Merged::Commit { commit: tip, tree } })
    }

    /// The commit `at` with another tree and parent: its author and message stay.
    async fn replay(&self, at: &str, tree: &str, parent: &str) -> Result<String, GitError> {
        let show = [
            "log",
            "-1",
            "--no-show-signature",
            "--date=raw",
            "--format=%an%x00%ae%x00%ad%x00%B",
            at,
        ];
        let shown = git::run(&self.trees.common, &show).await?;
        let fields: Vec<&str> = shown.splitn(4, '\0').collect();
        let [name, email, date, message] = fields[..] else {
            return Err(GitError::Failed(format!("commit {at} can't be read")));
        };
        let [name, email, date] = [name, email, date].map(str::to_owned);
        self.commit(tree, &[parent], message, &Signature { name, email, date }).await
    }

    async fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        git::run(&self.trees.common, &["rev-parse", "--verify", &format!("{commit}^{{tree}}")])
            .await
    }

    async fn commit(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
        author: &Signature,
    ) -> Result<String, GitError> {
        let mut args = vec!["commit-tree", tree, "-m", message.trim_end()];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        let mut git = self.trees.git();
        author.sign(&mut git, &["AUTHOR"]);
        self.merge.by.sign(&mut git, &["COMMITTER"]);
        git.text(&args).await
    }
}

#[cfg(test)]
mod tests;

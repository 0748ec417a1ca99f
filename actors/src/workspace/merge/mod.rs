//! Computes the commit that a branch would move to when an attempt's work is merged. Only
//! objects are written: no reference, index or worktree changes, so nothing is ever half-merged.
//!
//! git merges in a scratch repository ([`Trees`]): no merge driver, hook or filter of the
//! repository's configuration runs.

pub mod conflict;
pub(super) mod trees;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::git::{self, Git, GitError};
use super::parting::{self, History, Parting};
use super::signing::Signing;
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    pub name: String,
    pub email: String,
}

/// A name and an address, and a moment in git's own form (`1700000000 +0100`). With the same
/// moment, the same merge gives the same commit, apart from a signature by a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    pub name: String,
    pub email: String,
    pub date: String,
    /// Who commits, where that is configured to be another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committer: Option<Person>,
}

impl Signature {
    /// Signs what git commits, in these roles.
    pub(super) fn sign(&self, git: &mut Git, roles: &[&str]) {
        let date = exact(&self.date);
        for role in roles {
            let other = self.committer.as_ref().filter(|_| *role == "COMMITTER");
            let (name, email) =
                other.map_or((&self.name, &self.email), |other| (&other.name, &other.email));
            git.command
                .env(format!("GIT_{role}_NAME"), name)
                .env(format!("GIT_{role}_EMAIL"), email)
                .env(format!("GIT_{role}_DATE"), &date);
        }
    }
}

/// The moment as git takes it in any year: without the `@`, fewer than nine digits are none. A
/// commit may have what git itself would refuse: a zone that is that of no place, or no date.
fn exact(date: &str) -> String {
    let (seconds, zone) = date.split_once(' ').unwrap_or((date, ""));
    let seconds: i64 = seconds.trim_start_matches('@').parse().unwrap_or_default();
    let digits = zone.strip_prefix(['+', '-']).unwrap_or_default();
    let is_zone = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    format!("@{} {}", seconds.max(0), if is_zone { zone } else { "+0000" })
}

/// What to merge: commits, not names, since names may move meanwhile.
#[derive(Clone, Debug)]
pub struct Merge {
    pub repo: PathBuf,
    /// The folder for scratch repositories.
    pub scratch: PathBuf,
    pub target: String,
    pub source: String,
    /// What is known of the work that leads to the source.
    pub history: History,
    pub strategy: Strategy,
    /// Of the commit that `Merge` and `Squash` make.
    pub message: String,
    pub by: Signature,
    pub signing: Arc<Signing>,
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
    /// The target does not have this commit, which the work began from, and would get it so.
    Lacks { begun: String },
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
        let Merge { target, source, strategy, history, .. } = self.merge;
        let common = &self.trees.common;
        let parting = parting::part(common, Some(target), source, history).await?;
        let Some(Parting { base, .. }) = parting else {
            return Err(GitError::Failed(format!("{target} and {source} share no commit")));
        };
        if base == *source {
            return Ok(Merged::Nothing);
        }
        match strategy {
            Strategy::Rebase => self.rebase(&base).await,
            Strategy::Squash => self.one(&base, &[target]).await,
            Strategy::Merge => match self.lacked().await? {
                None => self.one(&base, &[target, source]).await,
                Some(begun) => self.merge_replayed(&base, begun).await,
            },
            Strategy::FastForward => match self.lacked().await? {
                Some(begun) => Ok(Merged::Lacks { begun }),
                None if parting::is_ancestor(common, target, source).await? => {
                    self.merged(source.clone()).await
                }
                None => Ok(Merged::Diverged),
            },
        }
    }

    /// The commit that the work began from, if the source would bring it to a target that does not
    /// have it: one that was amended or moved since, or another branch.
    async fn lacked(&self) -> Result<Option<String>, GitError> {
        let Merge { target, source, history, .. } = self.merge;
        let Some(begun) = &history.begun else { return Ok(None) };
        let list = ["rev-list", "--no-walk", "--ignore-missing", begun];
        let common = &self.trees.common;
        let is_brought = !git::run(common, &list).await?.is_empty()
            && !parting::is_ancestor(common, begun, target).await?
            && parting::is_ancestor(common, begun, source).await?;
        Ok(is_brought.then(|| begun.clone()))
    }

    /// A commit with the target and the replayed work as parents.
    async fn merge_replayed(&self, base: &str, begun: String) -> Result<Merged, GitError> {
        let Merge { target, message, by, .. } = self.merge;
        let (replayed, tree) = match self.rebase(base).await? {
            Merged::Commit { commit, tree } => (commit, tree),
            Merged::NotLinear { .. } => return Ok(Merged::Lacks { begun }),
            other => return Ok(other),
        };
        let commit = self.commit(&tree, &[target, &replayed], message, by).await?;
        Ok(Merged::Commit { commit, tree })
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
        let Merge { target, source, history, .. } = self.merge;
        let common = &self.trees.common;
        let is_forward = base == target && parting::is_ancestor(common, target, source).await?;
        if is_forward && self.lacked().await?.is_none() {
            return self.merged(source.clone()).await;
        }
        let list = ["rev-list", "--reverse", "--topo-order", "--parents", "--ignore-missing"];
        let mut list = [&list[..], &[source, "--not", target, base]].concat();
        list.extend(history.begun.as_deref());
        let listed = git::run(common, &list).await?;
        let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split(' ').collect()).collect();
        // Before any is replayed: what stands before a merge of the target may not apply without it.
        if let Some(merge) = lines.iter().find(|line| line.len() != 2) {
            return Ok(Merged::NotLinear { at: merge[0].to_owned() });
        }
        let (mut tip, mut tree) = (target.clone(), self.tree_of(target).await?);
        for (n, line) in lines.into_iter().enumerate() {
            let (at, parent) = (line[0], line[1]);
            // The base is the first one's parent, unless the commits were rewritten since a merge.
            let since = if n == 0 { base } else { parent };
            let report = self.trees.merge_shown(since, &tip, at).await?;
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
        let author = Signature { name, email, date, committer: None };
        self.commit(tree, &[parent], message, &author).await
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
        let mut args = vec![tree, "-m", message.trim_end()];
        args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        let git = || {
            let mut git = self.trees.git();
            author.sign(&mut git, &["AUTHOR"]);
            self.merge.by.sign(&mut git, &["COMMITTER"]);
            git
        };
        self.merge.signing.commit_tree(git, &args).await
    }
}

#[cfg(test)]
mod tests;

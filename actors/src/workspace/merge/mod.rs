//! Computes the commit that a branch would move to when an attempt's work is merged. Only objects are
//! written: no reference, index or worktree changes, so nothing is ever half-merged.
//! [`advance`](super::advance) moves the branch later.
//!
//! git merges in a scratch repository ([`Trees`]): no merge driver, hook or filter of the repository's
//! configuration runs.

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
    /// The target moves to the attempt's own commit, which must have the target.
    FastForward,
}

/// A name and an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    pub name: String,
    pub email: String,
}

/// Who signs a commit: a name and an address, and a moment in git's own form (`1700000000 +0100`). With
/// the same moment, the same merge gives the same commit, apart from a signature by a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    pub name: String,
    pub email: String,
    /// Seconds since 1970, and the time zone.
    pub date: String,
    /// The committer, where the configuration names another one than the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committer: Option<Person>,
}

impl Signature {
    /// Sets the variables by which git signs a commit, for these roles (`AUTHOR`, `COMMITTER`).
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

/// The moment in a form that git takes for any year: without the `@`, git takes fewer than nine digits
/// for no seconds. A replayed commit may have what git itself would refuse, a zone that no place has, or
/// no date. It gets UTC, or 1970.
fn exact(date: &str) -> String {
    let (seconds, zone) = date.split_once(' ').unwrap_or((date, ""));
    let seconds: i64 = seconds.trim_start_matches('@').parse().unwrap_or_default();
    let digits = zone.strip_prefix(['+', '-']).unwrap_or_default();
    let is_zone = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    format!("@{} {}", seconds.max(0), if is_zone { zone } else { "+0000" })
}

/// What to merge: commits, not names, because a name may move during the merge.
#[derive(Clone, Debug)]
pub struct Merge {
    pub repo: PathBuf,
    /// The folder for scratch repositories.
    pub scratch: PathBuf,
    /// The commit at the target branch.
    pub target: String,
    /// The commit with the attempt's work.
    pub source: String,
    /// What is on record of the work that leads to the source: what was merged before does not count
    /// again.
    pub history: History,
    pub strategy: Strategy,
    /// Of the commit that `Merge` and `Squash` make; a rebase keeps the messages.
    pub message: String,
    /// The committer of all new commits, and the author of those that `Merge` and `Squash` make.
    pub by: Signature,
    pub signing: Arc<Signing>,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The target may move to this commit, which has this tree.
    Commit { commit: String, tree: String },
    /// The target has all of the work already.
    Nothing,
    /// The work does not apply. With [`Strategy::Rebase`], `at` is the first commit that does not.
    Conflicts { conflicts: Vec<Conflict>, at: Option<String> },
    /// [`Strategy::FastForward`] is impossible: the target has commits that the work lacks.
    Diverged,
    /// A rebase is impossible: the merge commit `at` is among the commits to be replayed.
    NotLinear { at: String },
    /// The work began from this commit, which the target does not have and would get with the work. It
    /// was amended or moved since then, or is another branch's.
    Lacks { begun: String },
}

/// Computes the merge. The result is in the repository as objects that no reference has yet.
///
/// # Errors
/// git fails, or the target and the source have no commit in common.
pub async fn merge(merge: &Merge) -> Result<Merged, GitError> {
    let Merge { repo, scratch, target, .. } = merge;
    Merger { merge, trees: Trees::open(repo, scratch, target).await? }.run().await
}

/// One merge, with the scratch repository for it.
struct Merger<'a> {
    merge: &'a Merge,
    trees: Trees,
}

impl Merger<'_> {
    /// Finds the commit since which the work counts, then goes by the strategy.
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

    /// The commit that the work began from, if the source would bring it to a target that does not have
    /// it: it was amended or moved since then, or is another branch's.
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

    /// A merge commit whose second parent is the replayed work: so the target does not get the commit
    /// `begun`.
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

    /// The commit, with its tree.
    async fn merged(&self, commit: String) -> Result<Merged, GitError> {
        let tree = self.tree_of(&commit).await?;
        Ok(Merged::Commit { commit, tree })
    }

    /// All changes in one commit with these parents. With one parent, a commit without changes is not
    /// made.
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

    /// Replays each commit on top of the target, without those that change nothing there. If the target
    /// is the base of the work, the work itself is the result.
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
        // The check comes before any commit is replayed: what was committed before a merge of the target
        // may not apply without that merge, and a conflict would hide the reason.
        if let Some(merge) = lines.iter().find(|line| line.len() != 2) {
            return Ok(Merged::NotLinear { at: merge[0].to_owned() });
        }
        let (mut tip, mut tree) = (target.clone(), self.tree_of(target).await?);
        for (n, line) in lines.into_iter().enumerate() {
            let (at, parent) = (line[0], line[1]);
            // The base is the first commit's parent, except where the agent has rewritten its commits since
            // an earlier merge of them.
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

    /// The commit `at` with another tree and parent. Its author and message stay.
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

    /// Makes a commit by this author; the committer is the one of the merge.
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

//! Computes the commit that a branch would move to when an attempt's work is merged. Only
//! objects are written: no reference, index or worktree changes, so nothing is ever half-merged.
//!
//! git merges in a scratch repository ([`Aside`]): no merge driver, hook or filter of the
//! repository's configuration runs. `git merge-tree` does it without files; a git that lacks
//! it, or lacks `--merge-base` (2.40), merges in a scratch folder.

pub mod conflict;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::aside::Aside;
use super::git::{self, Git, GitError};
use conflict::{Conflict, Report};

/// Largest file of which conflicts are shown, in bytes.
const SHOWN_MAX: usize = 1 << 20;
/// Most conflicts whose hunks are read.
const CONFLICTS_MAX: usize = 20;

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

/// How git merges two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// `git merge-tree --write-tree --merge-base`.
    MergeTree,
    /// `git merge-recursive` in a scratch folder with the files.
    Folder,
}

/// Merges.
///
/// # Errors
/// git fails, or the two have no commit in common.
pub async fn merge(merge: &Merge) -> Result<Merged, GitError> {
    let common = git::common_dir(&merge.repo).await?;
    let means = if has_merge_tree(&common).await? { Means::MergeTree } else { Means::Folder };
    Merger::new(merge, common, means).await?.run().await
}

/// git 2.40 and later can be given the merge base.
async fn has_merge_tree(common: &Path) -> Result<bool, GitError> {
    let version = git::run(common, &["version"]).await?;
    let numbers = version.split_whitespace().nth(2).unwrap_or_default();
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    Ok((numbers.next(), numbers.next()) >= (Some(2), Some(40)))
}

struct Merger<'a> {
    merge: &'a Merge,
    common: PathBuf,
    aside: Aside,
    means: Means,
}

impl<'a> Merger<'a> {
    async fn new(merge: &'a Merge, common: PathBuf, means: Means) -> Result<Self, GitError> {
        let aside = Aside::make(&merge.scratch, &common).await?;
        Ok(Self { merge, common, aside, means })
    }

    async fn run(&self) -> Result<Merged, GitError> {
        let Merge { target, source, strategy, .. } = self.merge;
        let Some(base) = git::merge_base(&self.common, target, source).await? else {
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
        let Report { tree, conflicts } = self.trees(base, target, source).await?;
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
        let listed = git::run(&self.common, &list).await?;
        let (mut tip, mut tree) = (target.clone(), self.tree_of(target).await?);
        for line in listed.lines() {
            let (at, parent) = match line.split(' ').collect::<Vec<_>>()[..] {
                [at, parent] => (at, parent),
                [at, ..] => return Ok(Merged::NotLinear { at: at.to_owned() }),
                [] => continue,
            };
            let report = self.trees(parent, &tip, at).await?;
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
        let shown = git::run(&self.common, &show).await?;
        let fields: Vec<&str> = shown.splitn(4, '\0').collect();
        let [name, email, date, message] = fields[..] else {
            return Err(GitError::Failed(format!("commit {at} can't be read")));
        };
        let [name, email, date] = [name, email, date].map(str::to_owned);
        self.commit(tree, &[parent], message, &Signature { name, email, date }).await
    }

    async fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        git::run(&self.common, &["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).await
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
        let mut git = self.writing(self.aside.path());
        author.sign(&mut git, &["AUTHOR"]);
        self.merge.by.sign(&mut git, &["COMMITTER"]);
        git.text(&args).await
    }

    /// git of the scratch repository that writes its objects to the real one.
    fn writing(&self, files: &Path) -> Git {
        let mut git = self.aside.git(files).patient();
        git.command
            .args(["-c", "core.fsync=all"])
            // Attributes such as `merge=union` are the target's.
            .arg("-c")
            .arg(format!("attr.tree={}", self.merge.target))
            .env("GIT_OBJECT_DIRECTORY", self.common.join("objects"));
        git
    }

    /// Merges the changes from `base` to `theirs` into `ours`.
    async fn trees(&self, base: &str, ours: &str, theirs: &str) -> Result<Report, GitError> {
        let mut report = match self.means {
            Means::MergeTree => self.by_merge_tree(base, ours, theirs).await?,
            Means::Folder => self.in_folder(base, ours, theirs).await?,
        };
        for conflict in report.conflicts.iter_mut().take(CONFLICTS_MAX) {
            conflict.hunks = self.hunks(&report.tree, &conflict.path).await?;
        }
        Ok(report)
    }

    async fn by_merge_tree(
        &self,
        base: &str,
        ours: &str,
        theirs: &str,
    ) -> Result<Report, GitError> {
        let base = format!("--merge-base={base}");
        let args = ["merge-tree", "--write-tree", "--messages", "-z", &base, ours, theirs];
        let output = self.writing(self.aside.path()).output(&args, usize::MAX).await?;
        match output.status.code() {
            Some(0 | 1) => conflict::parse(&output.stdout)
                .ok_or_else(|| GitError::Failed("git merge-tree speaks differently".to_owned())),
            _ => Err(output.failure()),
        }
    }

    async fn in_folder(&self, base: &str, ours: &str, theirs: &str) -> Result<Report, GitError> {
        let folder = tempfile::Builder::new().prefix("merge-").tempdir_in(&self.merge.scratch)?;
        let git = || {
            let mut git = self.writing(folder.path());
            git.command.args(["-c", "core.sparseCheckout=false"]).env_remove("GIT_OPTIONAL_LOCKS");
            git
        };
        git().text(&["read-tree", "--reset", "-u", ours]).await?;
        let merged =
            git().output(&["merge-recursive", base, "--", ours, theirs], usize::MAX).await?;
        if !matches!(merged.status.code(), Some(0 | 1)) {
            return Err(merged.failure());
        }
        let unmerged = git().output(&["ls-files", "--unmerged", "-z"], usize::MAX).await?;
        // Files with markers take the place of what is unmerged.
        git().text(&["add", "--all", "--force"]).await?;
        let tree = git().text(&["write-tree"]).await?;
        let report = [tree.as_bytes(), b"\0", &unmerged.stdout, b"\0"].concat();
        conflict::parse(&report)
            .ok_or_else(|| GitError::Failed("git ls-files speaks differently".to_owned()))
    }

    /// The lines in conflict of a file of the merged tree.
    async fn hunks(&self, tree: &str, path: &str) -> Result<Option<String>, GitError> {
        let file = format!("{tree}:{path}");
        let shown = self.aside.git(self.aside.path());
        let mut shown = shown;
        shown.command.env("GIT_OBJECT_DIRECTORY", self.common.join("objects"));
        let shown = shown.output(&["cat-file", "blob", &file], SHOWN_MAX).await?;
        if shown.is_cut || !shown.status.success() {
            return Ok(None);
        }
        Ok(std::str::from_utf8(&shown.stdout).ok().and_then(conflict::hunks))
    }
}

#[cfg(test)]
mod tests;

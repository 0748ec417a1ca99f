//! Merges two trees in a scratch repository ([`ScratchRepo`]), whose objects go to the real one. `git
//! merge-tree` does it without files. A git before 2.41 lacks its `--merge-base`, or can't be told which
//! tree's attributes count: it merges in a scratch folder with files.

use std::path::{Path, PathBuf};

use super::conflict::{self, Report};
use crate::workspace::git::{self, Git, GitError};
use crate::workspace::scratch_repo::ScratchRepo;

/// Bytes of the largest file whose conflicts are shown.
const SHOWN_MAX: usize = 1 << 20;
/// Most files whose conflicts are shown: each costs a run of git.
const CONFLICTS_MAX: usize = 20;

/// How git merges two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// `git merge-tree --write-tree --merge-base`.
    MergeTree,
    /// `git merge-recursive` in a scratch folder with the files, whose attributes are those of the
    /// tree that is merged into.
    Folder,
}

/// Merges trees of one repository.
pub struct Trees {
    /// The folder that the repository's worktrees share.
    pub common: PathBuf,
    scratch: PathBuf,
    /// The commit whose `.gitattributes` count, such as `merge=union`: the one that is merged into.
    attributes: String,
    aside: ScratchRepo,
    means: Means,
}

impl Trees {
    /// Opens the repository. `attributes` is the commit whose `.gitattributes` count; `scratch` is the
    /// folder for scratch repositories.
    pub async fn open(repo: &Path, scratch: &Path, attributes: &str) -> Result<Self, GitError> {
        let common = git::common_dir(repo).await?;
        let means = if has_merge_tree(&common).await? { Means::MergeTree } else { Means::Folder };
        Self::by(common, scratch, attributes, means).await
    }

    /// The same with given means: tests use both.
    pub(super) async fn by(
        common: PathBuf,
        scratch: &Path,
        attributes: &str,
        means: Means,
    ) -> Result<Self, GitError> {
        let aside = ScratchRepo::make(scratch, &common).await?;
        let (scratch, attributes) = (scratch.to_owned(), attributes.to_owned());
        Ok(Self { common, scratch, attributes, aside, means })
    }

    /// git of the scratch repository, which writes its objects to the real one.
    pub fn git(&self) -> Git {
        self.writing(self.aside.path())
    }

    /// The same, with the files in this folder. What it writes is durable before a reference can have it.
    fn writing(&self, files: &Path) -> Git {
        let mut git = self.aside.git(files).patient();
        git.command
            .args(["-c", "core.fsync=all"])
            .env("GIT_ATTR_SOURCE", &self.attributes)
            .env("GIT_OBJECT_DIRECTORY", self.common.join("objects"));
        git
    }

    /// Merges the changes from commit `base` to commit `theirs` into commit `ours`. Conflicts come
    /// without hunks.
    pub async fn merge(&self, base: &str, ours: &str, theirs: &str) -> Result<Report, GitError> {
        match self.means {
            Means::MergeTree => self.by_merge_tree(base, ours, theirs).await,
            Means::Folder => self.in_folder(base, ours, theirs).await,
        }
    }

    /// The same, with the lines in conflict of the first files.
    pub async fn merge_shown(
        &self,
        base: &str,
        ours: &str,
        theirs: &str,
    ) -> Result<Report, GitError> {
        let mut report = self.merge(base, ours, theirs).await?;
        for conflict in report.conflicts.iter_mut().take(CONFLICTS_MAX) {
            conflict.hunks = self.hunks(&report.tree, &conflict.path).await?;
        }
        Ok(report)
    }

    /// By `git merge-tree`, which exits with 1 for conflicts.
    async fn by_merge_tree(
        &self,
        base: &str,
        ours: &str,
        theirs: &str,
    ) -> Result<Report, GitError> {
        let base = format!("--merge-base={base}");
        let args = ["merge-tree", "--write-tree", "--messages", "-z", &base, ours, theirs];
        let output = self.git().output(&args, usize::MAX).await?;
        match output.status.code() {
            Some(0 | 1) => conflict::parse(&output.stdout)
                .ok_or_else(|| GitError::Failed("git merge-tree speaks differently".to_owned())),
            _ => Err(output.failure()),
        }
    }

    /// By `git merge-recursive` in a scratch folder. Its unmerged index entries and the tree with the
    /// markers make the same report as `git merge-tree` gives.
    async fn in_folder(&self, base: &str, ours: &str, theirs: &str) -> Result<Report, GitError> {
        let folder = tempfile::Builder::new().prefix("merge-").tempdir_in(&self.scratch)?;
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
        // The files with markers replace the unmerged entries, so that a tree can be written.
        git().text(&["add", "--all", "--force"]).await?;
        let tree = git().text(&["write-tree"]).await?;
        let report = [tree.as_bytes(), b"\0", &unmerged.stdout, b"\0"].concat();
        conflict::parse(&report)
            .ok_or_else(|| GitError::Failed("git ls-files speaks differently".to_owned()))
    }

    /// The lines in conflict of one file of the merged tree; `None`: it is no text, or too long.
    async fn hunks(&self, tree: &str, path: &str) -> Result<Option<String>, GitError> {
        let file = format!("{tree}:{path}");
        let shown = self.git().output(&["cat-file", "blob", &file], SHOWN_MAX).await?;
        if shown.is_cut || !shown.status.success() {
            return Ok(None);
        }
        Ok(std::str::from_utf8(&shown.stdout).ok().and_then(conflict::hunks))
    }
}

/// Whether this is git 2.41 or later: 2.40 brought `--merge-base`, 2.41 the variable for the attributes.
async fn has_merge_tree(common: &Path) -> Result<bool, GitError> {
    let version = git::run(common, &["version"]).await?;
    let numbers = version.split_whitespace().nth(2).unwrap_or_default();
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    Ok((numbers.next(), numbers.next()) >= (Some(2), Some(41)))
}

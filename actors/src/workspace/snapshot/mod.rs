//! What an attempt changed in one repository, read without touching it.
//!
//! git reads the worktree from a scratch repository ([`ScratchRepo`]) with a copy of Provost's own index of
//! it. So nothing is written where the agent works, no lock of its git is in the way, and no
//! configuration, index or object that the agent can write has a say. What it has committed is taken
//! over first ([`transfer`]). Files that are too large to
//! read ([`plenty`]) are listed by size. A patch is made from a [`mirror`] of its files.

mod mirror;
mod names;
pub(super) mod patch;
pub(super) mod plenty;
mod withheld;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::changes::{self, Change};
use super::git::{self, Git, GitError, Output};
use super::own::Own;
use super::own::transfer::{self, Heads};
use super::parting;
use super::regular;
use super::scratch_repo::ScratchRepo;
use super::source::Source;
use super::tree::Tree;
use crate::blocking::{blocking, if_there};

/// The longest list of changes that is held, in bytes: about a million files.
pub(super) const LISTING_MAX: usize = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the repository {repo} can't be read: {why}", repo = .repo.display(), why = gist(.why))]
    Repository { repo: PathBuf, why: GitError },
    #[error("the worktree {path} can't be read: {why}", path = .path.display())]
    Worktree { path: PathBuf, why: String },
    #[error("the target branch {branch} of {repo} and the attempt's worktree have no commit in common", repo = .repo.display())]
    NoMergeBase { repo: PathBuf, branch: String },
    #[error("more files changed than can be listed")]
    TooMany,
    #[error("git can't tell what changed: {}", gist(.0))]
    Git(GitError),
    #[error("git can't be prepared: {0}")]
    Io(#[from] io::Error),
    #[error(
        "{path} has {bytes} bytes, and {max} at most are taken in that are not committed: commit it, or have git ignore it"
    )]
    TooLarge { path: String, bytes: u64, max: u64 },
    #[error("git's list of changes can't be understood")]
    Unreadable,
}

impl SnapshotError {
    /// Whether a retry may succeed: git failed, perhaps because a file changed meanwhile.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Git(GitError::Failed(_)))
    }

    /// Whether the machine lacks something to run git at all.
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::Repository { why, .. } | Self::Git(why) => why.is_shortage(),
            _ => false,
        }
    }
}

impl From<GitError> for SnapshotError {
    fn from(error: GitError) -> Self {
        match error {
            GitError::Prepare(error) => Self::Io(error),
            error => Self::Git(error),
        }
    }
}

/// git's errors without the warnings, cut.
fn gist(error: &GitError) -> String {
    const LONGEST: usize = 300;
    let said = error.to_string();
    // git maps files into memory; access to a truncated one fails so (mmap(2)).
    if said.contains("SIGBUS") {
        return "a file was cut short while it was read".to_owned();
    }
    let errors = said.lines().filter(|it| it.starts_with("fatal:") || it.starts_with("error:"));
    let errors = errors.collect::<Vec<_>>().join(" ");
    let text = if errors.is_empty() { said } else { errors };
    text.chars().take(LONGEST).collect()
}

/// A worktree and the commit that its changes are compared with.
pub struct Snapshot {
    pub(super) tree: Arc<Tree>,
    pub(super) aside: ScratchRepo,
    /// The commit that is checked out; for a branch without one, the attempt's commit.
    pub(super) head: String,
    pub(super) heads: Heads,
    pub base: String,
    untracked: HashSet<Vec<u8>>,
    /// Folders of other repositories in it, of which git has no commit.
    pub(super) nested: Vec<Vec<u8>>,
    /// A folder that git could not read.
    pub(super) unreadable: Option<String>,
    /// Files with a conflict that the agent has not resolved, by its index.
    pub(super) unmerged: Vec<Vec<u8>>,
    withheld: Vec<String>,
}

impl Snapshot {
    pub async fn take(source: &Source) -> Result<Self, SnapshotError> {
        Self::take_from(source, None).await
    }

    /// The same; the commit `base` stands in where there is no merge base.
    pub async fn take_from(source: &Source, base: Option<&str>) -> Result<Self, SnapshotError> {
        let repo = &source.repo;
        let common = git::common_dir(repo)
            .await
            .map_err(|why| SnapshotError::Repository { repo: repo.clone(), why })?;
        let tree = open_worktree(source).await?;
        let taken = async {
            let heads = transfer::take_over(source, &common).await?;
            let base = parting(source, &heads.head, base).await?;
            Ok::<_, SnapshotError>((heads, base))
        };
        let aside = async { Ok(ScratchRepo::make(&source.scratch, &common).await?) };
        let ((heads, base), aside) = tokio::try_join!(taken, aside)?;
        let head = heads.head.clone();
        let (from, to) = (source.own.index(), aside.path().join("index"));
        blocking(move || if_there(regular::copy(&from, &to)).map(drop)).await?;
        let (untracked, nested) = (HashSet::new(), Vec::new());
        let (tree, withheld) = (Arc::new(tree), source.withheld.clone());
        let (unmerged, unreadable) = (Vec::new(), None);
        let mut snapshot = Self {
            tree,
            aside,
            head,
            heads,
            base,
            untracked,
            nested,
            unreadable,
            unmerged,
            withheld,
        };
        // What is tracked is what the commit has; of files that are as they were, it keeps their times.
        snapshot.run().text(&["read-tree", "--reset", &snapshot.head]).await?;
        snapshot.add_staged(source, &common).await?;
        // Otherwise files marked as unchanged would count as such whatever is in them. It fails
        // when any has changed, which is no fault.
        snapshot.run().output(&["update-index", "-q", "--really-refresh"], usize::MAX).await?;
        snapshot.add_untracked().await?;
        snapshot.withhold(None).await?;
        Ok(snapshot)
    }

    /// Runs `git update-index` with this input.
    pub(super) async fn update_index(
        &self,
        git: Git,
        options: &[&str],
        input: Vec<u8>,
    ) -> Result<(), SnapshotError> {
        let git = git.input(self.aside.path(), input).await?;
        git.text(&[&["update-index"], options].concat()).await?;
        Ok(())
    }

    /// Everything that differs from the merge base, sorted by path.
    pub async fn changes(&self) -> Result<Vec<Change>, SnapshotError> {
        let mut by_name = self.diff(None, &["-z", "--raw", "--no-renames"]).await?;
        let tree = Arc::clone(&self.tree);
        let by_name = blocking(move || {
            plenty::measure(&tree, &mut by_name);
            io::Result::Ok(by_name)
        });
        let by_name = by_name.await?;
        let index = self.index_without(&by_name).await?;
        let options = ["-z", "--raw", "--numstat", "--find-renames"];
        let read = self.diff(index.as_deref(), &options).await?;
        Ok(plenty::together(by_name, read))
    }

    async fn diff(
        &self,
        index: Option<&Path>,
        options: &[&str],
    ) -> Result<Vec<Change>, SnapshotError> {
        let mut args = diff(options);
        args.extend([self.base.clone().into(), "--".into()]);
        let mut git = self.run();
        git.command.envs(index.map(|index| ("GIT_INDEX_FILE", index)));
        let listing = whole(git.output(&args, LISTING_MAX).await?)?;
        changes::parse(&listing).ok_or(SnapshotError::Unreadable)
    }

    /// An index by which git skips the files that are not read; `None` where all are read.
    async fn index_without(&self, changes: &[Change]) -> Result<Option<PathBuf>, SnapshotError> {
        let unread = changes.iter().filter(|change| !change.is_read).map(|change| &change.path);
        let (gone, kept): (Vec<_>, Vec<_>) =
            unread.partition(|path| self.untracked.contains(*path));
        if gone.is_empty() && kept.is_empty() {
            return Ok(None);
        }
        let index = self.copy_index(self.aside.path(), "index.read").await?;
        for (option, paths) in [("--force-remove", gone), ("--assume-unchanged", kept)] {
            let list = paths.into_iter().flat_map(|path| [path.as_slice(), b"\0"].concat());
            let mut git = self.run();
            git.command.env("GIT_INDEX_FILE", &index);
            self.update_index(git, &[option, "-z", "--stdin"], list.collect()).await?;
        }
        Ok(Some(index))
    }

    pub(super) async fn listing<A: AsRef<OsStr>>(
        &self,
        args: &[A],
    ) -> Result<Vec<u8>, SnapshotError> {
        whole(self.run().output(args, LISTING_MAX).await?)
    }

    /// The patch of these paths; `None` when it is longer than `limit` bytes. With `below`, the
    /// paths in it begin with that folder; a rename is a deletion and an addition there.
    pub async fn patch(
        &mut self,
        paths: &[Vec<u8>],
        below: Option<&str>,
        limit: usize,
    ) -> Result<Option<String>, SnapshotError> {
        let Some(mirror) = mirror::make(self, paths).await? else { return Ok(None) };
        let args = patch::args(&[&self.base], paths, below);
        patch::text(&self.aside, || self.beside(&mirror), &args, limit).await
    }

    /// The index of the scratch repository.
    pub(super) fn index(&self) -> PathBuf {
        self.aside.path().join("index")
    }

    /// Has later snapshots read only files that have changed since this one.
    pub(super) async fn keep_index(&self, own: &Own) -> io::Result<()> {
        let (from, to) = (self.index(), own.index());
        let next = to.with_extension("next");
        blocking(move || {
            regular::copy(&from, &next)?;
            fs::rename(next, to)
        })
        .await
    }

    pub(super) async fn copy_index(&self, admin: &Path, name: &str) -> io::Result<PathBuf> {
        let (from, to) = (admin.join("index"), self.aside.path().join(name));
        blocking(move || regular::copy(&from, &to).map(|()| to)).await
    }

    pub(super) fn writing(&self, objects: &Path) -> Git {
        let mut git = self.run().patient();
        // What goes into the repository itself has to be as durable as the references to it.
        if objects == self.aside.common.join("objects") {
            git.command.args(["-c", "core.fsync=all", "-c", "core.fsyncMethod=batch"]);
        }
        git.command.env("GIT_OBJECT_DIRECTORY", objects);
        for who in ["AUTHOR", "COMMITTER"] {
            git.command.env(format!("GIT_{who}_NAME"), "Provost");
            git.command.env(format!("GIT_{who}_EMAIL"), "provost@localhost");
        }
        git
    }

    pub(super) fn run(&self) -> Git {
        // The open folder, not its name: that may be a link by now.
        self.beside(&self.tree.path())
    }

    fn beside(&self, files: &Path) -> Git {
        let mut git = self.aside.git(files);
        git.command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git
    }
}

pub(super) fn whole(output: Output) -> Result<Vec<u8>, SnapshotError> {
    if output.is_cut {
        return Err(SnapshotError::TooMany);
    }
    if !output.status.success() {
        return Err(output.failure().into());
    }
    Ok(output.stdout)
}

/// `git diff` that runs nothing, and doesn't look into submodules.
pub(super) fn diff(options: &[&str]) -> Vec<OsString> {
    let common =
        ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"];
    common.iter().chain(options).map(OsString::from).collect()
}

/// Opens the worktree.
pub(super) async fn open_worktree(source: &Source) -> Result<Tree, SnapshotError> {
    let source = source.clone();
    blocking(move || {
        let failed = |why: String| SnapshotError::Worktree { path: source.worktree(), why };
        if !source.own.admin().join("commondir").exists() {
            let why =
                "it has no repository of its own: an earlier version of Provost made it".to_owned();
            return Err(failed(why));
        }
        let tree = Tree::open(&source.worktrees, &source.folder, &source.name);
        tree.map_err(|error| failed(error.to_string()))
    })
    .await
}

/// The commit at which what is checked out and the target branch parted.
async fn parting(
    source: &Source,
    head: &str,
    known: Option<&str>,
) -> Result<String, SnapshotError> {
    let Source { repo, target_branch, history, .. } = source;
    let base = parting::since(repo, target_branch, head, history).await?;
    let base = base.or_else(|| known.or(history.begun.as_deref()).map(str::to_owned));
    base.ok_or_else(|| SnapshotError::NoMergeBase {
        repo: repo.clone(),
        branch: target_branch.clone(),
    })
}

/// Copies a worktree's index.
pub(super) fn copy_indexes(admin: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(admin)? {
        let entry = entry?;
        let name = entry.file_name();
        // The larger part of a split index is a file of its own.
        if name == "index" || name.as_bytes().starts_with(b"sharedindex.") {
            regular::copy(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;

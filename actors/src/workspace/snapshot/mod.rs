//! What an attempt changed in one repository, read without touching the worktree.
//!
//! ```text
//!  take over the commits ─▶ HEAD ─▶ the merge base with the target branch
//!  a copy of Provost's index ─▶ read-tree HEAD ─▶ + staged names ─▶ refresh
//!                           ─▶ + untracked names ─▶ − withheld files ─▶ a Snapshot
//! ```
//!
//! git reads the worktree from a scratch repository ([`ScratchRepo`]) with a copy of Provost's own index
//! of it. So nothing is written where the agent works, no lock of its git is in the way, and no
//! configuration, index or object that the agent can write has an effect. What it has committed is taken
//! over first ([`transfer`]). Files that are too large to read ([`plenty`]) are listed by size. A patch
//! is made from a [`mirror`] of its files.

pub(super) mod limits;
mod mirror;
mod names;
pub(super) mod patch;
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

/// Bytes of the longest list of changes that is read: about a million files.
pub(super) const LISTING_MAX: usize = 256 << 20;

/// Why a worktree, or what changed in it, can't be read: a sentence.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The person's repository can't be read.
    #[error("the repository {repo} can't be read: {why}", repo = .repo.display(), why = gist(.why))]
    Repository { repo: PathBuf, why: GitError },
    /// The worktree, or the attempt's own repository, is not as Provost made it.
    #[error("the worktree {path} can't be read: {why}", path = .path.display())]
    Worktree { path: PathBuf, why: String },
    /// There is no commit to compare with.
    #[error("the target branch {branch} of {repo} and the attempt's worktree have no commit in common", repo = .repo.display())]
    NoMergeBase { repo: PathBuf, branch: String },
    /// A list is longer than `LISTING_MAX`.
    #[error("more files changed than can be listed")]
    TooMany,
    /// git failed; often a file changed while git read it.
    #[error("git can't tell what changed: {}", gist(.0))]
    Git(GitError),
    #[error("git can't be prepared: {0}")]
    Io(#[from] io::Error),
    /// The files that are not committed have more than `max` bytes together. The path and the bytes are
    /// those of the largest one.
    #[error(
        "the files that are not committed have more than {max} bytes together; the largest is {path} with {bytes} bytes: commit it, or have git ignore it"
    )]
    TooLarge { path: String, bytes: u64, max: u64 },
    /// git printed something else than its manual says.
    #[error("git's list of changes can't be understood")]
    Unreadable,
}

impl SnapshotError {
    /// Whether a retry may succeed: git failed, perhaps because a file changed while git read it.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Git(GitError::Failed(_)))
    }

    /// Whether the machine lacks something to run git at all, see [`GitError::is_shortage`].
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

/// git's errors without its warnings, at most 300 characters.
fn gist(error: &GitError) -> String {
    const LONGEST: usize = 300;
    let said = error.to_string();
    // git maps files into memory. An access behind the end of a truncated one raises SIGBUS (mmap(2)).
    if said.contains("SIGBUS") {
        return "a file was cut short while it was read".to_owned();
    }
    let errors = said.lines().filter(|it| it.starts_with("fatal:") || it.starts_with("error:"));
    let errors = errors.collect::<Vec<_>>().join(" ");
    let text = if errors.is_empty() { said } else { errors };
    text.chars().take(LONGEST).collect()
}

/// A worktree, and the commit with which its files are compared. Only the names of changed files are
/// known at first; each call reads the files as they are then.
pub struct Snapshot {
    /// The open worktree.
    pub(super) tree: Arc<Tree>,
    /// The scratch repository, whose index has the worktree's files.
    pub(super) aside: ScratchRepo,
    /// The commit that is checked out; on a branch without a commit, the tip of the attempt's branch.
    pub(super) head: String,
    /// The tips, as they were taken over.
    pub(super) heads: Heads,
    /// The commit to compare with: since then the work counts against the target branch.
    pub base: String,
    /// Files that only the worktree has. The index has their names, without content.
    untracked: HashSet<Vec<u8>>,
    /// Folders of other repositories in the worktree that are no submodules.
    pub(super) nested: Vec<Vec<u8>>,
    /// The first folder that git could not read.
    pub(super) unreadable: Option<String>,
    /// Files with a conflict that the agent has not resolved, by its own index.
    pub(super) unmerged: Vec<Vec<u8>>,
    /// Files that no commit may have, see [`Source::withheld`].
    withheld: Vec<String>,
}

impl Snapshot {
    /// Takes a snapshot, compared with the commit where the attempt's work and the target branch parted.
    ///
    /// # Errors
    /// [`SnapshotError::may_pass`] tells whether another try may work.
    pub async fn take(source: &Source) -> Result<Self, SnapshotError> {
        Self::take_from(source, None).await
    }

    /// The same; where the two have no commit in common, `base` is compared with.
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
        // The tracked files are those of the commit, whatever the agent's index says. `--reset` keeps the
        // times of entries that are as before, so that their files need not be read again.
        snapshot.run().text(&["read-tree", "--reset", &snapshot.head]).await?;
        snapshot.add_staged(source, &common).await?;
        // `--really`: an entry that is marked as unchanged is compared, too. git exits with 1 when a file has
        // changed, which is no fault.
        snapshot.run().output(&["update-index", "-q", "--really-refresh"], usize::MAX).await?;
        snapshot.add_untracked().await?;
        snapshot.withhold(None).await?;
        Ok(snapshot)
    }

    /// Runs `git update-index` with these options and this input.
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

    /// Everything that differs from the base, sorted by path. git lists the names first and then counts
    /// the lines of the files that are not too large.
    pub async fn changes(&self) -> Result<Vec<Change>, SnapshotError> {
        let mut by_name = self.diff(None, &["-z", "--raw", "--no-renames"]).await?;
        let tree = Arc::clone(&self.tree);
        let by_name = blocking(move || {
            limits::measure(&tree, &mut by_name);
            io::Result::Ok(by_name)
        });
        let by_name = by_name.await?;
        let index = self.index_without(&by_name).await?;
        let options = ["-z", "--raw", "--numstat", "--find-renames"];
        let read = self.diff(index.as_deref(), &options).await?;
        Ok(limits::together(by_name, read))
    }

    /// The changes by `git diff` with these options. `index`: another one than the snapshot's.
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

    /// An index that makes git skip the files that are not read; `None`: all are read.
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

    /// The output of git in the worktree, at most `LISTING_MAX` bytes.
    pub(super) async fn listing<A: AsRef<OsStr>>(
        &self,
        args: &[A],
    ) -> Result<Vec<u8>, SnapshotError> {
        whole(self.run().output(args, LISTING_MAX).await?)
    }

    /// The patch of these paths; `None`: it is longer than `limit` bytes, or the files are too large.
    /// With `below`, the paths in it begin with that folder; a rename is a deletion and an addition
    /// there.
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

    /// Makes the index Provost's own one of the worktree: later snapshots read only the files that have
    /// changed since this one.
    pub(super) async fn keep_index(&self, own: &Own) -> io::Result<()> {
        let (from, to) = (self.index(), own.index());
        let next = to.with_extension("next");
        blocking(move || {
            regular::copy(&from, &next)?;
            fs::rename(next, to)
        })
        .await
    }

    /// Copies an index from `admin` into the scratch repository, under this name, with its time.
    pub(super) async fn copy_index(&self, admin: &Path, name: &str) -> io::Result<PathBuf> {
        let (from, to) = (admin.join("index"), self.aside.path().join(name));
        blocking(move || regular::copy(&from, &to).map(|()| to)).await
    }

    /// git that writes objects to this folder, and signs commits as Provost.
    pub(super) fn writing(&self, objects: &Path) -> Git {
        let mut git = self.run().patient();
        // Objects in the repository itself must be on the disk before a reference has them.
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

    /// git in the worktree.
    pub(super) fn run(&self) -> Git {
        // The path leads to the open folder. The folder's name may be a link by now.
        self.beside(&self.tree.path())
    }

    /// git with the files in this folder. It reads no file of configuration: the settings that count are
    /// given as options.
    fn beside(&self, files: &Path) -> Git {
        let mut git = self.aside.git(files);
        git.command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git
    }
}

/// The output of a git that succeeded and was not cut.
pub(super) fn whole(output: Output) -> Result<Vec<u8>, SnapshotError> {
    if output.is_cut {
        return Err(SnapshotError::TooMany);
    }
    if !output.status.success() {
        return Err(output.failure().into());
    }
    Ok(output.stdout)
}

/// The arguments of a `git diff` that runs no program, and doesn't look into submodules.
pub(super) fn diff(options: &[&str]) -> Vec<OsString> {
    let common =
        ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"];
    common.iter().chain(options).map(OsString::from).collect()
}

/// Opens the worktree through no link. A worktree without an own repository is refused: an earlier
/// version of Provost made it.
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

/// The commit where what is checked out and the target branch parted; else `known`, else the commit from
/// which the attempt began.
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

/// Copies the index of a checkout, with its times. Blocking.
pub(super) fn copy_indexes(admin: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(admin)? {
        let entry = entry?;
        let name = entry.file_name();
        // With a split index, the larger part is in a file of its own (git-update-index(1)).
        if name == "index" || name.as_bytes().starts_with(b"sharedindex.") {
            regular::copy(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;

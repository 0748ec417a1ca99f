//! What an attempt changed in one repository, read without touching it.
//!
//! git reads the worktree from a scratch repository ([`Aside`]) with a copy of the worktree's
//! index. So nothing is written where the agent works, no lock of its git is in the way, and no
//! configuration that the agent can write makes git run anything. Files that are too large to
//! read ([`plenty`]) are listed by size. A patch is made from a [`mirror`] of its files.

mod mirror;
pub(super) mod patch;
pub(super) mod plenty;
mod withheld;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::aside::Aside;
use super::changes::{self, Change};
use super::git::{self, Git, GitError, Output};
use super::registration::is_registration_of;
use super::regular;
use super::tree::Tree;
use crate::blocking::blocking;

/// The longest list of changes that is held, in bytes: about a million files.
pub(super) const LISTING_MAX: usize = 256 << 20;

#[derive(Clone, Debug)]
pub struct Source {
    pub repo: PathBuf,
    /// The worktree is `<worktrees>/<folder>/<name>`.
    pub worktrees: PathBuf,
    pub folder: String,
    pub name: String,
    pub branch: String,
    pub target_branch: String,
    pub scratch: PathBuf,
    /// Files of the worktree that are in no commit, whether or not git ignores them.
    pub withheld: Vec<String>,
}

impl Source {
    pub fn worktree(&self) -> PathBuf {
        self.worktrees.join(&self.folder).join(&self.name)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the repository {repo} can't be read: {why}", repo = .repo.display(), why = gist(.why))]
    Repository { repo: PathBuf, why: GitError },
    #[error("the worktree {path} can't be read: {why}", path = .path.display())]
    Worktree { path: PathBuf, why: String },
    #[error("the target branch {branch} of {repo} is gone", repo = .repo.display())]
    TargetGone { repo: PathBuf, branch: String },
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
    pub(super) aside: Aside,
    /// The commit that is checked out; for a branch without one, the attempt's commit.
    pub(super) head: String,
    pub base: String,
    untracked: HashSet<Vec<u8>>,
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
        let (tree, admin) = open_worktree(source, &common).await?;
        let aside = async {
            let aside = Aside::make(&source.scratch, &common).await?;
            Ok(aside.with_filters().await?)
        };
        let ((head, base), aside) = tokio::try_join!(parting(source, &admin, base), aside)?;
        let git_dir = aside.path().to_owned();
        blocking(move || copy_indexes(&admin, &git_dir)).await?;
        let untracked = HashSet::new();
        let (tree, withheld) = (Arc::new(tree), source.withheld.clone());
        let mut snapshot = Self { tree, aside, head, base, untracked, withheld };
        // Otherwise files marked as unchanged would count as such whatever is in them. It fails
        // when any has changed, which is no fault.
        snapshot.run().output(&["update-index", "-q", "--really-refresh"], usize::MAX).await?;
        snapshot.add_untracked().await?;
        snapshot.withhold(None).await?;
        Ok(snapshot)
    }

    /// Adds the names of untracked files to the index. `git add` would run git in each submodule
    /// and so what its configuration says; it only adds the commits of new repositories here.
    async fn add_untracked(&mut self) -> Result<(), SnapshotError> {
        let list = ["ls-files", "--others", "--exclude-standard", "-z"];
        let listed = self.listing(&list).await?;
        let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let (nested, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.ends_with(b"/"));
        let mut entries = Vec::new();
        for path in files {
            // Any object will do: git never trusts an entry without times.
            entries.extend([b"100644 ", self.base.as_bytes(), b"\t", path, b"\0"].concat());
            self.untracked.insert(path.to_vec());
        }
        let options = ["--add", "--replace", "-z", "--index-info"];
        self.update_index(self.run(), &options, entries).await?;
        if nested.is_empty() {
            return Ok(());
        }
        let add = ["add", "--intent-to-add", "--ignore-errors", "--"].map(OsString::from);
        let nested = nested.into_iter().map(|path| OsString::from_vec(path.to_vec()));
        let added = self
            .run()
            .output(&add.into_iter().chain(nested).collect::<Vec<_>>(), usize::MAX)
            .await?;
        match added.status.code() {
            // 1: one has no commit yet, so git can't add it.
            Some(0 | 1) => Ok(()),
            _ => Err(added.failure().into()),
        }
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

/// Opens the worktree and finds its folder in the repository, whose shared folder is `common`.
pub(super) async fn open_worktree(
    source: &Source,
    common: &Path,
) -> Result<(Tree, PathBuf), SnapshotError> {
    let (source, common) = (source.clone(), common.to_owned());
    blocking(move || {
        let failed = |why: String| SnapshotError::Worktree { path: source.worktree(), why };
        let tree = Tree::open(&source.worktrees, &source.folder, &source.name);
        let tree = tree.map_err(|error| failed(error.to_string()))?;
        let link = tree.read_own(".git").map_err(|error| failed(format!(".git: {error}")))?;
        let admin = link.strip_prefix("gitdir: ").map(|path| path.trim_end_matches('\n'));
        let no_link = || failed("its .git is not a link to a repository".to_owned());
        let admin = source.worktree().join(admin.ok_or_else(no_link)?).canonicalize();
        let worktrees = common.join("worktrees").canonicalize();
        match (admin, worktrees) {
            (Ok(admin), Ok(worktrees))
                if admin.parent() == Some(&worktrees)
                    && is_registration_of(&admin, &source.worktree()) =>
            {
                Ok((tree, admin))
            }
            _ => Err(failed(format!("its .git does not lead to {}", common.display()))),
        }
    })
    .await
}

/// The commit that is checked out in a worktree, by its folder in the repository.
pub(super) async fn head(repo: &Path, admin: &Path) -> Result<String, GitError> {
    let admin = admin.to_string_lossy();
    git::run(repo, &["--git-dir", &*admin, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        .await
}

/// The commit that is checked out, and the one at which it and the target branch parted.
async fn parting(
    source: &Source,
    admin: &Path,
    known: Option<&str>,
) -> Result<(String, String), SnapshotError> {
    let (repo, branch) = (source.repo.clone(), source.target_branch.clone());
    let (target, head) = tokio::join!(git::branch_tip(&repo, &branch), head(&repo, admin));
    let target = target?;
    if target.is_none() && known.is_none() {
        return Err(SnapshotError::TargetGone { repo, branch });
    }
    let head = match head {
        Ok(head) => Some(head),
        // A branch without a commit is checked out.
        Err(GitError::Failed(_)) => git::branch_tip(&repo, &source.branch).await?,
        Err(error) => return Err(error.into()),
    };
    let Some(head) = head else { return Err(SnapshotError::NoMergeBase { repo, branch }) };
    let base = match target {
        Some(target) => git::merge_base(&repo, &head, &target).await?,
        None => None,
    };
    match base.or_else(|| known.map(str::to_owned)) {
        Some(base) => Ok((head, base)),
        None => Err(SnapshotError::NoMergeBase { repo, branch }),
    }
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

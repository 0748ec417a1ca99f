//! A checkout whose files change together with its index, which is locked meanwhile. git reads
//! and writes the files from a scratch repository ([`Aside`]) with a copy of the index, so
//! nothing runs that the repository configures.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::aside::{self, Aside};
use super::git::{self, Git, GitError, Output};
use super::index_lock::IndexLock;
use super::regular;
use crate::blocking::{blocking, if_there};

/// Why a checkout can't follow: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum InTheWay {
    #[error("a git command is, or was, at work in it (index.lock)")]
    Locked,
    #[error("{0}")]
    Files(String),
    #[error("git can't tell: {0}")]
    Git(#[from] GitError),
    #[error("it can't be looked into: {0}")]
    Io(#[from] io::Error),
}

/// A checkout with a locked index.
pub struct CheckedOut {
    path: PathBuf,
    aside: Aside,
    sparse: Vec<OsString>,
    index: IndexLock,
}

/// The checkouts of a repository that show the branch.
pub async fn of_branch(repo: &Path, branch: &str) -> Result<Vec<PathBuf>, GitError> {
    let listed = git::run(repo, &["worktree", "list", "--porcelain", "-z"]).await?;
    let wanted = format!("branch refs/heads/{branch}");
    let checkouts = listed.split("\0\0").filter(|entry| entry.split('\0').any(|it| it == wanted));
    let path = |entry: &str| {
        entry.split('\0').find_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from)
    };
    Ok(checkouts.filter_map(path).collect())
}

impl CheckedOut {
    /// Locks the index of the checkout at `path`. The scratch repository lies in `scratch`.
    pub async fn lock(path: &Path, scratch: &Path, mark: &str) -> Result<Self, InTheWay> {
        let admin = git::run(path, &["rev-parse", "--absolute-git-dir"]).await?;
        let admin = PathBuf::from(admin);
        let (aside, sparse) =
            aside::of_worktree(path, &admin, &git::common_dir(path).await?, scratch).await?;
        let Some(index) = IndexLock::take(&admin, mark).await? else {
            return Err(InTheWay::Locked);
        };
        if let Err(error) = index.copy_from(&index.index()).await {
            index.release().await?;
            return Err(error.into());
        }
        Ok(Self { path: path.to_owned(), aside, sparse, index })
    }

    fn git(&self, index: &Path) -> Git {
        let mut git = self.aside.git(&self.path).patient();
        git.command
            .args(&self.sparse)
            .env("GIT_INDEX_FILE", index)
            .env_remove("GIT_OPTIONAL_LOCKS");
        git
    }

    /// Changes the files from the commit `old` to `new`, or changes none of them: a file with
    /// changes of its own, or an untracked one in the way, is an error.
    pub async fn switch(&self, old: &str, new: &str) -> Result<(), InTheWay> {
        let copy = self.index.copy();
        // Exits with 1 where a file has changed, which is no fault.
        self.git(&copy).output(&["update-index", "-q", "--refresh"], usize::MAX).await?;
        if self.index.is_continued {
            self.recognize(old, new).await?;
        }
        let switch = ["read-tree", "-m", "-u", old, new];
        match self.git(&copy).output(&switch, usize::MAX).await? {
            output if output.status.success() => Ok(()),
            output => Err(InTheWay::Files(in_the_way(&output))),
        }
    }

    /// After a switch that was cut off: files that are as in `new` already count as such, and
    /// those that were being written are removed, to be written again.
    async fn recognize(&self, old: &str, new: &str) -> Result<(), InTheWay> {
        let (copy, other) = (self.index.copy(), self.aside.path().join("index.new"));
        let changed = ["diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new];
        let concerned = names(&self.git(&copy).output(&changed, usize::MAX).await?)?;
        self.git(&other).text(&["read-tree", new]).await?;
        self.git(&other).output(&["update-index", "-q", "--refresh"], usize::MAX).await?;
        let differing = ["diff-files", "-z", "--no-renames", "--name-only"];
        let from_old = names(&self.git(&copy).output(&differing, usize::MAX).await?)?;
        let from_new = names(&self.git(&other).output(&differing, usize::MAX).await?)?;
        let tracked = names(&self.git(&copy).output(&["ls-files", "-z"], usize::MAX).await?)?;
        for path in concerned {
            let is_old = tracked.contains(&path) && !from_old.contains(&path);
            if is_old {
                continue;
            }
            let listed = ["ls-tree", "-z", new, "--", &path];
            let entry = self.git(&copy).text(&listed).await?;
            let Some((what, _)) = entry.split_once('\t') else { continue };
            let [mode, _, object] = what.split(' ').collect::<Vec<_>>()[..] else { continue };
            if from_new.contains(&path) {
                self.remove_unfinished(new, &path).await?;
            } else {
                let entry = format!("{mode},{object},{path}");
                self.git(&copy).text(&["update-index", "--add", "--cacheinfo", &entry]).await?;
            }
        }
        Ok(())
    }

    /// Removes a file that is the beginning of what it is to become.
    async fn remove_unfinished(&self, new: &str, path: &str) -> Result<(), InTheWay> {
        let whole = ["cat-file", "--filters", &format!("{new}:{path}")];
        let whole = self.git(&self.index.copy()).output(&whole, usize::MAX).await?;
        let file = self.path.join(path);
        blocking(move || {
            let Some(found) = if_there(fs::symlink_metadata(&file))? else { return Ok(()) };
            let is_begun = found.is_file() && found.len() < whole.stdout.len() as u64;
            if is_begun && whole.stdout.starts_with(&regular::read(&file, found.len())?) {
                fs::remove_file(&file)?;
            }
            Ok::<_, io::Error>(())
        })
        .await?;
        Ok(())
    }

    /// The index is that of the switched files from now on.
    pub async fn keep(self) -> io::Result<()> {
        self.index.install().await
    }

    /// Leaves the index as it was.
    pub async fn unlock(self) -> io::Result<()> {
        self.index.release().await
    }
}

fn names(output: &Output) -> Result<BTreeSet<String>, GitError> {
    if !output.status.success() {
        return Err(output.failure());
    }
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// What git says is in the way, on one line.
fn in_the_way(output: &Output) -> String {
    let lines = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| line.trim_start_matches("error: ").trim_start_matches("fatal: "));
    lines.collect::<Vec<_>>().join(" ")
}

//! A checkout whose index is locked against every other git while its files change. The lock
//! file has the caller's mark, so that the next daemon recognizes one that a killed daemon
//! left, and continues.
//!
//! git reads and writes the files from a scratch repository ([`Aside`]) with a copy of the
//! index, so nothing runs that the repository configures. The copy becomes the index at the end.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::aside::{self, Aside};
use super::git::{self, Git, GitError, Output};
use super::regular;
use crate::blocking::{blocking, if_there};

/// The lock of an index (gitrepository-layout(5)).
const LOCK: &str = "index.lock";
/// The copy of the index that becomes the index.
const COPY: &str = "provost.index";

/// Why a checkout can't follow: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum InTheWay {
    #[error("a git command is, or was, at work in it ({LOCK})")]
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
    /// The folder that git keeps for the checkout.
    admin: PathBuf,
    aside: Aside,
    sparse: Vec<OsString>,
    /// An earlier daemon was cut off while it changed the files.
    is_continued: bool,
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
        let (aside, sparse) = aside::of_worktree(path, &admin, scratch).await?;
        let (folder, mark) = (admin.clone(), mark.to_owned());
        let is_continued = blocking(move || take_lock(&folder, &mark)).await?;
        let Some(is_continued) = is_continued else { return Err(InTheWay::Locked) };
        let this = Self { path: path.to_owned(), admin, aside, sparse, is_continued };
        let (index, copy) = (this.admin.join("index"), this.copy());
        if let Err(error) = blocking(move || regular::copy(&index, &copy)).await {
            this.unlock().await?;
            return Err(error.into());
        }
        Ok(this)
    }

    fn copy(&self) -> PathBuf {
        self.admin.join(COPY)
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
        let copy = self.copy();
        // Exits with 1 where a file has changed, which is no fault.
        self.git(&copy).output(&["update-index", "-q", "--refresh"], usize::MAX).await?;
        if self.is_continued {
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
        let (copy, other) = (self.copy(), self.aside.path().join("index.new"));
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
        let whole = self.git(&self.copy()).output(&whole, usize::MAX).await?;
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

    /// Puts the changed copy in the place of the index, and unlocks it.
    pub async fn keep(self) -> io::Result<()> {
        let (index, copy) = (self.admin.join("index"), self.copy());
        blocking(move || {
            File::open(&copy)?.sync_all()?;
            fs::rename(&copy, &index)
        })
        .await?;
        self.unlock().await
    }

    /// Unlocks the index and leaves it as it is.
    pub async fn unlock(self) -> io::Result<()> {
        let (copy, lock) = (self.copy(), self.admin.join(LOCK));
        blocking(move || {
            if_there(fs::remove_file(copy))?;
            if_there(fs::remove_file(lock)).map(drop)
        })
        .await
    }
}

/// Takes the lock. `Some(true)`: an earlier daemon had it with this mark; `None`: another
/// program has it.
fn take_lock(admin: &Path, mark: &str) -> io::Result<Option<bool>> {
    let lock = admin.join(LOCK);
    match File::options().write(true).create_new(true).open(&lock) {
        Ok(mut file) => {
            file.write_all(mark.as_bytes())?;
            file.sync_all()?;
            Ok(Some(false))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((regular::text(&lock)? == mark).then_some(true))
        }
        Err(error) => Err(error),
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

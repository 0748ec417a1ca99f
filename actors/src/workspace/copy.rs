//! Copies files that git ignores (dependencies, `.env`) from the main checkout of a repository into a new
//! worktree.
//!
//! The patterns are an allow-list over ignored files: a tracked file, or one that git would add, is never
//! copied. git itself lists and matches the files (`listed`). Of those, only regular files are opened,
//! beneath the checkout and through no link (`folders`). Each becomes a new file beneath the worktree: a
//! clone that shares its blocks where the file system can, else a copy, up to a limit. A file of
//! credentials is copied only if a pattern names it literally (`named`). Links are made again as
//! [`LinkRule`] allows.

mod credentials;
mod folders;
mod listed;
mod named;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::SFlag;
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use serde::{Deserialize, Serialize};

use super::beneath::{self, Links};
use super::git::{self, GitError};
use super::links::{LEADS_OUT, LinkRule};
use super::plain_file;
use super::reflink::Reflink;
use crate::blocking::blocking;
use crate::secret::file::is_credential;
pub use credentials::{credentials_of_checkout, credentials_of_worktree};
use folders::{Folders, in_the_way, regular};
use listed::{ignored_there, matching};
pub use named::credential_lines;
use named::{Named, line_for};

/// Most files of which the receipt says why they were left out.
const LEFT_OUT_MAX: usize = 50;
/// Bytes of a certificate's file that are searched for a private key.
const KEY_SEARCHED: u64 = 256 * 1024;

/// What is to be copied, from where and to where.
#[derive(Clone, Debug)]
pub struct Copying {
    /// The main checkout. A bare repository has no files to copy.
    pub repo: PathBuf,
    /// The folder of all worktrees, in which no agent can replace anything.
    pub worktrees: PathBuf,
    /// The worktree, as a path beneath `worktrees`.
    pub below: PathBuf,
    /// Lines as in a `.gitignore`: what they match is copied.
    pub patterns: Vec<String>,
    /// Most bytes of copies that share no blocks (`worktrees.copy_max_bytes`). Clones are not limited.
    pub max_bytes: u64,
    /// For the lists that git reads.
    pub scratch: PathBuf,
}

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReceipt {
    pub files: u64,
    /// Of all files, clones among them.
    pub bytes: u64,
    /// Files that share their blocks with the original.
    pub cloned: u64,
    /// Files that share nothing with the original.
    pub copied: u64,
    /// Links that were made again; they are no files.
    #[serde(default)]
    pub links: u64,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// How many matching files were not copied.
    pub left_out_count: u64,
    /// The first 50 of those, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// Copied files of credentials, whose values no log may show.
    pub credentials: Vec<String>,
}

/// A file that matches a pattern and was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub path: String,
    /// Why: a clause, such as "it is not a regular file".
    pub reason: String,
}

/// Why nothing, or not everything, could be copied: a sentence.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("git can't list the ignored files: {0}")]
    Git(#[from] GitError),
    #[error("more files are ignored than can be listed")]
    TooMany,
    #[error("the checkout {path} can't be opened: {error}", path = .path.display())]
    Checkout { path: PathBuf, error: io::Error },
    #[error("the ignored files can't be copied: {0}")]
    Io(#[from] io::Error),
}

/// Copies what the patterns match. Call it before anything has run in the worktree. A file that can't be
/// copied is left out and listed in the receipt.
///
/// # Errors
/// git or the checkout can't be read, or a file can't be written (a full disk, say). What was copied
/// until then stays.
pub async fn copy_ignored(what: Copying) -> Result<CopyReceipt, CopyError> {
    let began = Instant::now();
    let asked = ["rev-parse", "--is-inside-work-tree", "--absolute-git-dir"];
    let said = git::run(&what.repo, &asked).await?;
    let Some(("true", git_dir)) = said.split_once('\n') else {
        return Ok(CopyReceipt {
            left_out_count: 1,
            left_out: vec![LeftOut {
                path: what.repo.display().to_string(),
                reason: "the repository has no checkout".to_owned(),
            }],
            ..CopyReceipt::default()
        });
    };
    let path = what.repo.clone();
    let opened = blocking(move || open_checkout(&path)).await;
    let from =
        Arc::new(opened.map_err(|error| CopyError::Checkout { path: what.repo.clone(), error })?);
    let paths = matching(&what, from.as_fd(), Path::new(git_dir)).await?;
    let (paths, not_there) = ignored_there(&what, Path::new(git_dir), paths).await?;
    let receipt = blocking(move || {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let to = beneath::folder(&what.worktrees)?;
        let to = beneath::open_beneath(to.as_fd(), &what.below, flags, Links::Refuse)?;
        Copier::new(from.as_fd(), to.as_fd(), &what).run(&paths, &not_there)
    });
    let mut receipt = receipt.await?;
    receipt.ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(receipt)
}

/// The folder of a checkout. No link may lie on the way: the path was without links when the repository
/// was registered, so a link has been put there since.
fn open_checkout(path: &Path) -> io::Result<OwnedFd> {
    let root = beneath::folder(Path::new("/"))?;
    let below = path.strip_prefix("/").map_err(io::Error::other)?;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    beneath::open_beneath(root.as_fd(), below, flags, Links::Refuse).map_err(|error| match error {
        Errno::ELOOP => io::Error::other("a link stands on the way there"),
        error => error.into(),
    })
}

/// Why one file is not copied.
enum Skip {
    /// A reason for the receipt; the other files are copied.
    Because(String),
    /// Nothing more can be copied.
    Fault(io::Error),
}

impl From<io::Error> for Skip {
    fn from(error: io::Error) -> Self {
        Self::Fault(error)
    }
}

/// A reason for the receipt.
fn because(reason: impl Into<String>) -> Skip {
    Skip::Because(reason.into())
}

/// One run of the copying.
struct Copier<'a> {
    sources: Folders<'a>,
    copies: Folders<'a>,
    named: Named,
    links: LinkRule,
    reflink: Reflink,
    max_bytes: u64,
    /// How many bytes may still be copied.
    left_bytes: u64,
    receipt: CopyReceipt,
}

impl<'a> Copier<'a> {
    fn new(from: BorrowedFd<'a>, to: BorrowedFd<'a>, what: &Copying) -> Self {
        Self {
            sources: Folders::of_checkout(from),
            copies: Folders::of_worktree(to),
            named: Named::read(&what.patterns),
            links: LinkRule { private: vec![what.worktrees.clone(), what.repo.clone()] },
            reflink: Reflink::new(),
            max_bytes: what.max_bytes,
            left_bytes: what.max_bytes,
            receipt: CopyReceipt::default(),
        }
    }

    /// Copies `paths`, in git's order. `not_there` are only listed as left out.
    fn run(mut self, paths: &[Vec<u8>], not_there: &[Vec<u8>]) -> io::Result<CopyReceipt> {
        for path in not_there {
            let path = String::from_utf8_lossy(path).into_owned();
            self.leave_out(path, "git does not ignore it in the worktree".to_owned());
        }
        for path in paths {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            match self.copy(path) {
                Ok(()) => {}
                Err(Skip::Fault(error)) => {
                    let message = format!("{}: {error}", path.display());
                    return Err(io::Error::new(error.kind(), message));
                }
                Err(Skip::Because(reason)) => self.leave_out(path.display().to_string(), reason),
            }
        }
        Ok(self.receipt)
    }

    /// Counts a file that is not copied, and keeps the reason of the first ones.
    fn leave_out(&mut self, path: String, reason: String) {
        self.receipt.left_out_count += 1;
        if self.receipt.left_out.len() < LEFT_OUT_MAX {
            self.receipt.left_out.push(LeftOut { path, reason });
        }
    }

    /// Copies one file or makes one link again. The space is checked first only where clones are known
    /// not to work: otherwise the copy is tried as a clone, and removed again if it can't be one and
    /// there is no room.
    fn copy(&mut self, path: &Path) -> Result<(), Skip> {
        // git lists another repository as its folder, with a slash at the end.
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(because("it is a repository of its own"));
        }
        let name = path.file_name().ok_or_else(|| because("it has no name"))?;
        if beneath::is_of_git(path) {
            return Err(because("it belongs to git"));
        }
        let at = path.parent().unwrap_or(Path::new(""));
        let folder = self.sources.at(at)?;
        if plain_file::kind_at(folder, name).is_ok_and(|kind| kind == SFlag::S_IFLNK) {
            let target = readlinkat(folder, name).map_err(io::Error::from)?;
            return self.link(Path::new(&target), (at, Path::new(name)));
        }
        let (source, found) = regular(folder, name)?;
        let secret = self.credential(path, &source)?;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        if !self.reflink.may_share {
            self.require_room(size)?;
        }
        let folder = self.copies.at(at)?;
        let made = plain_file::create(folder, name, &found).map_err(in_the_way)?;
        if self.reflink.share(&source, &made) {
            self.receipt.cloned += 1;
        } else {
            if let Err(skip) = self.require_room(size) {
                let folder = self.copies.at(at)?;
                unlinkat(folder, name, UnlinkatFlags::NoRemoveDir).map_err(io::Error::from)?;
                return Err(skip);
            }
            io::copy(&mut (&source).take(size), &mut &made)?;
            self.left_bytes -= size;
            self.receipt.copied += 1;
        }
        plain_file::complete(&made, &found).map_err(io::Error::from)?;
        self.receipt.credentials.extend(secret);
        self.receipt.files += 1;
        self.receipt.bytes += size;
        Ok(())
    }

    /// Makes a link again in the folder `at` of the worktree, if it leads where links may lead.
    fn link(&mut self, target: &Path, (at, name): (&Path, &Path)) -> Result<(), Skip> {
        if !self.links.allows(target, at.components().count()) {
            return Err(because(format!("it {LEADS_OUT}")));
        }
        symlinkat(target, self.copies.at(at)?, name).map_err(in_the_way)?;
        self.receipt.links += 1;
        Ok(())
    }

    /// Refuses a file for which the limit of copied bytes leaves no room.
    fn require_room(&self, size: u64) -> Result<(), Skip> {
        if size <= self.left_bytes {
            return Ok(());
        }
        let most = self.max_bytes;
        Err(because(format!("copies may have {most} bytes in all (worktrees.copy_max_bytes)")))
    }

    /// The path of a file of credentials, for the receipt; `None`: the file is no credential. One that no
    /// pattern names literally is left out, with the line that would name it.
    fn credential(&self, path: &Path, source: &File) -> Result<Option<String>, Skip> {
        let shown = path.to_string_lossy();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !is_credential(&name) || is_certificate(&name, source)? {
            return Ok(None);
        }
        if path.to_str().is_some() && self.named.has(&shown) {
            return Ok(Some(shown.into_owned()));
        }
        let line = line_for(&shown);
        Err(because(format!("it looks like credentials: add the line `{line}` to copy it")))
    }
}

/// Whether a file is a `.pem` with certificates only: those of authorities are in many packages, and no
/// secret.
fn is_certificate(name: &str, source: &File) -> Result<bool, Skip> {
    if !name.to_ascii_lowercase().ends_with(".pem") {
        return Ok(false);
    }
    let mut text = Vec::new();
    let mut reader = source.try_clone()?.take(KEY_SEARCHED + 1);
    reader.read_to_end(&mut text)?;
    io::Seek::rewind(&mut &*source)?;
    let has_key = text.windows(11).any(|window| window == b"PRIVATE KEY");
    Ok(!has_key && text.len() as u64 <= KEY_SEARCHED)
}

#[cfg(test)]
mod tests;

//! The folders of the files that are copied, and the files in them. Each folder is opened once for all
//! its files. No link is followed anywhere.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode, SFlag, mkdirat};

use super::{Skip, because};
use crate::workspace::beneath::{self, Links};
use crate::workspace::plain_file;

/// How folders are opened: as a place for further opens, never through a link.
const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW);

/// Opens folders beneath one. git lists the files of a folder one after the other, so the last folder is
/// kept open.
pub(super) struct Folders<'a> {
    root: BorrowedFd<'a>,
    /// Whether missing folders are made.
    makes: bool,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Folders<'a> {
    /// The folders that are copied from: a missing one is an error.
    pub fn of_checkout(root: BorrowedFd<'a>) -> Self {
        Self { root, makes: false, last: None }
    }

    /// The folders that are copied to: a missing one is made.
    pub fn of_worktree(root: BorrowedFd<'a>) -> Self {
        Self { root, makes: true, last: None }
    }

    /// The open folder at a path; the root for an empty path. A link or a file on the way skips the file
    /// that is to be copied.
    pub fn at(&mut self, path: &Path) -> Result<BorrowedFd<'_>, Skip> {
        if path.as_os_str().is_empty() {
            return Ok(self.root);
        }
        let opened = match self.last.take() {
            Some((at, folder)) if at == path => folder,
            _ if self.makes => made(self.root, path)?,
            _ => {
                beneath::open_beneath(self.root, path, FOLDER, Links::Refuse).map_err(unreadable)?
            }
        };
        Ok(self.last.insert((path.to_owned(), opened)).1.as_fd())
    }
}

/// A folder of the worktree, made step by step where it is missing.
fn made(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Skip> {
    let mut at = root.try_clone_to_owned()?;
    for part in path.components() {
        let part = Path::new(part.as_os_str());
        match mkdirat(at.as_fd(), part, Mode::from_bits_truncate(0o777)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(in_the_way(error)),
        }
        let opened = beneath::open_beneath(at.as_fd(), part, FOLDER, Links::Refuse);
        at = opened.map_err(in_the_way)?;
    }
    Ok(at)
}

/// Why something can't be made in the worktree. What is there already is never replaced.
pub(super) fn in_the_way(error: Errno) -> Skip {
    match error {
        Errno::EEXIST => because("the worktree has it already"),
        Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV => {
            because("the worktree has a link or a file where its folder would be")
        }
        error => Skip::Fault(error.into()),
    }
}

/// Why something in the checkout can't be opened.
fn unreadable(error: Errno) -> Skip {
    match error {
        Errno::ELOOP | Errno::EXDEV => because("a link is on the way to it"),
        error => because(format!("it can't be read: {error}")),
    }
}

/// Opens a regular file in a folder. Nothing else is opened at all: the open of a pipe would wait, that
/// of a device may have an effect.
pub(super) fn regular(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(File, FileStat), Skip> {
    if plain_file::kind_at(folder, name).map_err(unreadable)? != SFlag::S_IFREG {
        return Err(because("it is not a regular file"));
    }
    let opened = plain_file::open(folder, name).map_err(unreadable)?;
    opened.ok_or_else(|| because("it is not a regular file"))
}

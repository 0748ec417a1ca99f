//! The folders of files that are copied, each opened once for all its files, and the files in
//! them. No link is followed anywhere.

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

const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW);

/// Opens folders beneath one. git lists the files of a folder one after the other, so that the
/// last one is kept open.
pub(super) struct Folders<'a> {
    root: BorrowedFd<'a>,
    /// Makes those that are missing.
    makes: bool,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Folders<'a> {
    pub fn of_checkout(root: BorrowedFd<'a>) -> Self {
        Self { root, makes: false, last: None }
    }

    pub fn of_worktree(root: BorrowedFd<'a>) -> Self {
        Self { root, makes: true, last: None }
    }

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

/// A folder of the worktree, made where it is missing.
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

/// What stands in the worktree already stays.
pub(super) fn in_the_way(error: Errno) -> Skip {
    match error {
        Errno::EEXIST => because("the worktree has it already"),
        Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV => {
            because("the worktree has a link or a file where its folder would be")
        }
        error => Skip::Fault(error.into()),
    }
}

fn unreadable(error: Errno) -> Skip {
    match error {
        Errno::ELOOP | Errno::EXDEV => because("a link is on the way to it"),
        error => because(format!("it can't be read: {error}")),
    }
}

/// Opens a regular file in a folder; nothing else is opened at all.
pub(super) fn regular(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(File, FileStat), Skip> {
    if plain_file::kind_at(folder, name).map_err(unreadable)? != SFlag::S_IFREG {
        return Err(because("it is not a regular file"));
    }
    let opened = plain_file::open(folder, name).map_err(unreadable)?;
    opened.ok_or_else(|| because("it is not a regular file"))
}

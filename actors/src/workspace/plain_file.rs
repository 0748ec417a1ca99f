//! Opens regular files in open folders, and makes new ones like them. No link is followed. Names
//! have one part. Blocking.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, futimens};
use nix::sys::time::TimeSpec;

const ALWAYS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_CLOEXEC);

/// What lies there. An open of a pipe or a device may already have an effect.
pub fn kind_at(folder: BorrowedFd<'_>, name: &OsStr) -> nix::Result<SFlag> {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|found| kind(&found))
}

/// Opens what was a regular file a moment ago; `None`: it is none any more.
pub fn open(folder: BorrowedFd<'_>, name: &OsStr) -> nix::Result<Option<(File, FileStat)>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | ALWAYS;
    let file = openat(folder, name, flags, Mode::empty())?;
    let found = fstat(file.as_fd())?;
    Ok((kind(&found) == SFlag::S_IFREG).then(|| (file.into(), found)))
}

/// Makes an empty file, where nothing may stand. It grants no more rights than the other file.
pub fn create(folder: BorrowedFd<'_>, name: &OsStr, like: &FileStat) -> nix::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | ALWAYS;
    openat(folder, name, flags, mode(like)).map(File::from)
}

/// Gives it the other one's mode and time, once it has its content.
pub fn complete(made: &File, like: &FileStat) -> nix::Result<()> {
    // The process's own mask may have taken something away.
    if mode(&fstat(made)?) != mode(like) {
        fchmod(made, mode(like))?;
    }
    futimens(made, &TimeSpec::UTIME_OMIT, &TimeSpec::new(like.st_mtime, like.st_mtime_nsec))
}

fn kind(of: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(of.st_mode) & SFlag::S_IFMT
}

/// Without the bits that would run it as another user.
fn mode(of: &FileStat) -> Mode {
    Mode::from_bits_truncate(of.st_mode & 0o777)
}

//! Opens regular files in open folders, and makes new ones like them. No link is followed. A name is one
//! component, without a slash. Blocking.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, futimens};
use nix::sys::time::TimeSpec;

/// In every open: the last component may not be a link.
const ALWAYS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_CLOEXEC);

/// The type of what lies there, without opening it: the open of a pipe or a device may already have an
/// effect.
pub fn kind_at(folder: BorrowedFd<'_>, name: &OsStr) -> nix::Result<SFlag> {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|found| kind(&found))
}

/// Opens what [`kind_at`] took for a regular file; `None`: it was replaced since then.
pub fn open(folder: BorrowedFd<'_>, name: &OsStr) -> nix::Result<Option<(File, FileStat)>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | ALWAYS;
    let file = openat(folder, name, flags, Mode::empty())?;
    let found = fstat(file.as_fd())?;
    Ok((kind(&found) == SFlag::S_IFREG).then(|| (file.into(), found)))
}

/// Makes an empty file; nothing may have its name. It grants no more rights than `like`, and never
/// set-user-ID.
pub fn create(folder: BorrowedFd<'_>, name: &OsStr, like: &FileStat) -> nix::Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | ALWAYS;
    openat(folder, name, flags, mode(like)).map(File::from)
}

/// Gives the file the mode and the modification time of `like`. Call it once the content is written,
/// which changes the time.
pub fn complete(made: &File, like: &FileStat) -> nix::Result<()> {
    // The umask may have taken rights away at the creation.
    if mode(&fstat(made)?) != mode(like) {
        fchmod(made, mode(like))?;
    }
    futimens(made, &TimeSpec::UTIME_OMIT, &TimeSpec::new(like.st_mtime, like.st_mtime_nsec))
}

/// The type bits alone.
fn kind(of: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(of.st_mode) & SFlag::S_IFMT
}

/// The permissions, without the bits that would run the file as another user.
fn mode(of: &FileStat) -> Mode {
    Mode::from_bits_truncate(of.st_mode & 0o777)
}

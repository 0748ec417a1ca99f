//! Reads git's files, which an agent can replace by anything: only regular files, a limited number of
//! bytes, and opens that never wait. Everything here blocks.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::{O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};

use crate::blocking::if_there;

/// Bytes of the longest text that [`text`] reads.
const TEXT_MAX: u64 = 64 * 1024;

/// Opens a regular file, without waiting for a writer of a pipe. `flags` are added.
fn open(path: &Path, flags: i32) -> io::Result<File> {
    let flags = flags | O_NONBLOCK | O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(format!("{} is no regular file", path.display())))
    }
}

/// The first `max` bytes of a file. Links are followed.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, 0)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first `max` bytes of a file right below a folder that an agent may write, but not replace. A link
/// in the file's place is an error.
pub fn own(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, O_NOFOLLOW)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a file into such a folder, complete or not at all, in place of whatever has its name; a folder
/// there is deleted. `next` is the file's name until it is complete.
pub fn replace(folder: &Path, name: &str, next: &str, bytes: &[u8]) -> io::Result<()> {
    let (path, next) = (folder.join(name), folder.join(next));
    for taken in [&next, &path] {
        if if_there(fs::symlink_metadata(taken))?.is_some_and(|found| found.is_dir()) {
            fs::remove_dir_all(taken)?;
        }
    }
    if_there(fs::remove_file(&next))?;
    let mut file = File::options().write(true).create_new(true).open(&next)?;
    file.write_all(bytes)?;
    fs::rename(next, path)
}

/// All of a small file, such as a link to a repository. Links are followed.
///
/// # Errors
/// It is no UTF-8, or no regular file. A longer file than 64 KiB is cut.
pub fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, TEXT_MAX)?).map_err(io::Error::other)
}

/// Copies a file with its modification time. A link in its place is an error; what has the copy's name is
/// removed.
///
/// The time matters for an index: git reads the content of files again that are not older than the index
/// ("racy git"). A copy with a later time would make git trust such files.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let source = open(from, O_NOFOLLOW)?;
    let found = source.metadata()?;
    if_there(fs::remove_file(to))?;
    let mut copy = File::options().write(true).create_new(true).open(to)?;
    io::copy(&mut source.take(found.len()), &mut copy)?;
    copy.set_modified(found.modified()?)
}

/// The same, if there is such a file and it has at most `max` bytes; else nothing is done.
pub fn copy_small(from: &Path, to: &Path, max: u64) -> io::Result<()> {
    match fs::symlink_metadata(from) {
        Ok(found) if found.is_file() && found.len() <= max => copy(from, to),
        _ => Ok(()),
    }
}

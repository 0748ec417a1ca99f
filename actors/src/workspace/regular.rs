//! Reads git's files, which an agent can replace by anything: only regular files, a limited
//! number of bytes, and no open waits. Everything here blocks.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::{O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};

use crate::blocking::if_there;

const TEXT_MAX: u64 = 64 * 1024;

/// Opens a regular file. `flags` are added to those that keep the open from waiting.
fn open(path: &Path, flags: i32) -> io::Result<File> {
    let flags = flags | O_NONBLOCK | O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(format!("{} is no regular file", path.display())))
    }
}

/// The first `max` bytes of a file; links are followed.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, 0)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first `max` bytes of a file right below a folder that an agent may write, but not replace: no
/// link is followed.
pub fn own(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, O_NOFOLLOW)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a file into such a folder, whole or not at all, over whatever has its name. `next` is its name
/// until then.
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

/// All of a small file, such as a link to a repository.
pub fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, TEXT_MAX)?).map_err(io::Error::other)
}

/// Copies a file with its time, but follows no link: what stands in the copy's place is removed.
/// git does not trust files younger than its index ("racy git"), so a copy of the index has to be
/// as old as the original.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let source = open(from, O_NOFOLLOW)?;
    let found = source.metadata()?;
    if_there(fs::remove_file(to))?;
    let mut copy = File::options().write(true).create_new(true).open(to)?;
    io::copy(&mut source.take(found.len()), &mut copy)?;
    copy.set_modified(found.modified()?)
}

/// The same, if there is such a file and it is no larger than `max` bytes.
pub fn copy_small(from: &Path, to: &Path, max: u64) -> io::Result<()> {
    match fs::symlink_metadata(from) {
        Ok(found) if found.is_file() && found.len() <= max => copy(from, to),
        _ => Ok(()),
    }
}

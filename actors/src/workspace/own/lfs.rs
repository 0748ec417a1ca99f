//! Takes over what Git LFS keeps of an agent's commits beside their objects: files whose names are the
//! hashes of their content. A file with another hash is not taken over.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

use super::Own;
use crate::blocking::if_there;
use crate::text::hex;
use crate::workspace::beneath::{self, Links, open_beneath};

/// Most files that are taken over at once.
const FILES_MAX: usize = 100_000;
/// Most bytes of all of them together.
const BYTES_MAX: u64 = 16 << 30;

/// Copies the contents that the person's repository, with the shared folder `common`, lacks. Blocking.
///
/// # Errors
/// There are too many, or too large ones; those before stay, and do no harm. Or reading or writing fails.
pub fn take_over(own: &Own, common: &Path) -> io::Result<()> {
    let Ok(root) = beneath::folder(&own.common().join("lfs")) else { return Ok(()) };
    let (mut bytes, mut files) = (0, 0);
    for name in names(root.as_fd())? {
        let to = common.join("lfs").join(&name);
        if fs::symlink_metadata(&to).is_ok() {
            continue;
        }
        files += 1;
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
        let Ok(file) = open_beneath(root.as_fd(), &name, flags, Links::Refuse) else { continue };
        let file = File::from(file);
        let found = file.metadata()?;
        bytes += found.len();
        if files > FILES_MAX || bytes > BYTES_MAX {
            return Err(io::Error::other("what Git LFS keeps of it is too much to be taken over"));
        }
        if found.is_file() {
            keep(file.take(found.len()), &to)?;
        }
    }
    Ok(())
}

/// The paths by which Git LFS names contents: `objects/ab/cd/abcd…`. Nothing else in the folder counts.
fn names(root: std::os::fd::BorrowedFd<'_>) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::from("objects"), 0)];
    while let Some((below, depth)) = folders.pop() {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let Ok(folder) = open_beneath(root, &below, flags, Links::Refuse) else { continue };
        for entry in fs::read_dir(beneath::proc_path(folder.as_fd()))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
            if depth < 2 && is_hex && entry.file_type()?.is_dir() {
                folders.push((path, depth + 1));
            } else if depth == 2 && is_hex && name.len() == 64 {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Writes a content to its path, complete or not at all, if its hash is its name. The copy is hashed,
/// because the agent may change the original while it is read.
fn keep(mut content: impl Read, to: &Path) -> io::Result<()> {
    let Some(folder) = to.parent() else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let mut next = tempfile::NamedTempFile::new_in(folder)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let read = content.read(&mut piece)?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        next.write_all(&piece[..read])?;
    }
    if to.file_name().is_some_and(|name| name.to_string_lossy() == hex(&hash.finalize())) {
        next.as_file().sync_all()?;
        if_there(next.persist_noclobber(to).map(drop).map_err(|error| error.error)).or_else(
            |error| {
                if error.kind() == io::ErrorKind::AlreadyExists { Ok(None) } else { Err(error) }
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_content_is_taken_over_if_its_name_is_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let own = Own::of(&dir.path().join("attempt"), "app");
        let common = dir.path().join("repo");
        fs::create_dir(&common).unwrap();
        let place = |name: &str| format!("objects/{}/{}/{name}", &name[..2], &name[2..4]);
        let good = hex(&Sha256::digest("content"));
        let (forged, linked) = ("ab".repeat(32), "cd".repeat(32));
        for name in [&good, &forged] {
            let path = own.common().join("lfs").join(place(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "content").unwrap();
        }
        let secret = dir.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        let path = own.common().join("lfs").join(place(&linked));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(&secret, path).unwrap();
        for _ in 0..2 {
            take_over(&own, &common).unwrap();
            let there = |name: &str| common.join("lfs").join(place(name));
            assert_eq!(fs::read_to_string(there(&good)).unwrap(), "content");
            assert!(!there(&forged).exists() && !there(&linked).exists());
        }
    }
}

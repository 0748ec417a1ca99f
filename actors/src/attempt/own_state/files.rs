//! Files beneath a folder that an agent can write. Nothing here follows a link, waits at a named pipe, or
//! leaves the folder: see `workspace/beneath.rs`. Blocking.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::workspace::beneath::{self, Links, open_beneath};

/// A folder, opened once: all paths are beneath it, wherever it is moved.
pub struct Root(OwnedFd);

impl Root {
    /// Opens a folder that no agent can replace.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(beneath::folder(path)?))
    }

    /// A regular file, to be read. `None`: there is none, or a link, a pipe or a folder has its name.
    pub fn file(&self, path: &Path) -> io::Result<Option<File>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
        let file = match open_beneath(self.0.as_fd(), path, flags, Links::Refuse) {
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV | Errno::ENXIO) => {
                return Ok(None);
            }
            opened => opened?,
        };
        let kind = SFlag::from_bits_truncate(fstat(file.as_fd())?.st_mode) & SFlag::S_IFMT;
        Ok((kind == SFlag::S_IFREG).then(|| file.into()))
    }

    /// The content of a regular file. `None`: there is none, or it has more than `max` bytes.
    pub fn read(&self, path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(max + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= max).then_some(bytes))
    }

    /// Writes a file for its owner alone, in place of any file or link of that name; makes the folders
    /// above it. A reader sees the old content or the new one.
    pub fn put(&self, path: &Path, mut content: impl Read) -> io::Result<()> {
        let name = path.file_name().ok_or(Errno::EINVAL)?;
        let folder = self.folder(path.parent().unwrap_or(Path::new("")))?;
        let temporary = format!(".provost-{}", uuid::Uuid::now_v7());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let flags = flags | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let mut file = File::from(openat(folder.as_fd(), temporary.as_str(), flags, mode)?);
        let written = io::copy(&mut content, &mut file)
            .and_then(|_| Ok(renameat(folder.as_fd(), temporary.as_str(), folder.as_fd(), name)?));
        if written.is_err() {
            let _ = unlinkat(folder.as_fd(), temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    /// Removes a file or a link, if there is one.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().ok_or(Errno::EINVAL)?;
        let above = path.parent().unwrap_or(Path::new(""));
        let removed = open_folder(self.0.as_fd(), above)
            .and_then(|folder| unlinkat(folder.as_fd(), name, UnlinkatFlags::NoRemoveDir));
        match removed {
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// What is in a folder, sorted: each name, and its kind; `None`: neither a folder nor a regular file.
    /// Empty if it is no folder. At most `most` names, and none that is not UTF-8.
    pub fn list(&self, path: &Path, most: usize) -> io::Result<Vec<(String, Option<Kind>)>> {
        let Ok(folder) = open_folder(self.0.as_fd(), path) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(beneath::proc_path(folder.as_fd()))?.take(most) {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type()?;
            let is_file = kind.is_file().then_some(Kind::File);
            let kind = if kind.is_dir() { Some(Kind::Folder) } else { is_file };
            found.push((name, kind));
        }
        found.sort();
        Ok(found)
    }

    /// A folder beneath, which is made if it is missing.
    pub fn below(&self, path: &Path) -> io::Result<Self> {
        self.folder(path).map(Self)
    }

    /// Makes and opens the folders of a path one after the other, so that none can be a link.
    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut at = self.0.try_clone()?;
        for part in path.components() {
            let part: &OsStr = part.as_os_str();
            match mkdirat(at.as_fd(), part, Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = open_folder(at.as_fd(), Path::new(part))?;
        }
        Ok(at)
    }
}

/// What a name in a listed folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Folder,
    File,
}

/// Opens a folder beneath, without reading it (`O_PATH`).
fn open_folder(root: BorrowedFd<'_>, path: &Path) -> nix::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    open_beneath(root, path, flags, Links::Refuse)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_an_agent_puts_in_the_way_leads_nowhere() {
        let scratch = tempfile::tempdir().unwrap();
        let (state, outside) = (scratch.path().join("state"), scratch.path().join("outside"));
        for folder in [&state, &outside] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(outside.join("key"), "a key").unwrap();
        symlink(outside.join("key"), state.join("link")).unwrap();
        symlink(&outside, state.join("folder")).unwrap();
        nix::unistd::mkfifo(&state.join("pipe"), Mode::S_IRWXU).unwrap();
        let root = Root::open(&state).unwrap();
        for path in ["link", "folder/key", "pipe", "../outside/key", "gone"] {
            assert_eq!(root.read(Path::new(path), 100).unwrap(), None, "{path}");
        }
        assert_eq!(root.list(Path::new("folder"), 10).unwrap(), []);
        root.put(Path::new("link"), &b"own"[..]).unwrap();
        assert!(root.put(Path::new("folder/key"), &b"own"[..]).is_err());
        assert_eq!(fs::read_to_string(outside.join("key")).unwrap(), "a key");
        root.put(Path::new("a/b"), &b"own"[..]).unwrap();
        assert_eq!(root.read(Path::new("a/b"), 3).unwrap().unwrap(), b"own");
        assert_eq!(root.read(Path::new("a/b"), 2).unwrap(), None, "it is too large");
        root.remove(Path::new("folder")).unwrap();
        assert!(outside.join("key").exists());
    }
}

//! Opens what lies beneath a folder and nothing else: no symbolic link, `..` or rename leads out of it.
//! Whatever an agent can write is opened this way, because the agent may swap a folder for a link at any
//! moment. The kernel checks each step (openat2(2)); without openat2, [`open_beneath`] opens step by
//! step.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

/// openat2(2) fails with `EAGAIN` when something was renamed during the walk. An agent that renames all
/// the time must not keep the caller forever.
const TRIES: usize = 128;

/// Whether symbolic links that stay beneath the folder are followed. Links that lead out never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

/// Opens a folder as the root for the calls below (`O_PATH`). Links in `path` are followed: the caller
/// trusts that path.
pub fn folder(path: &Path) -> nix::Result<OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

/// Opens `path` beneath `root`. `O_CLOEXEC` is added to `flags`.
///
/// # Errors
/// `EXDEV`: the path leads out of `root`. `ELOOP`: with [`Links::Refuse`], a link lies on the way.
/// `EAGAIN`: the folders are renamed too often. Else as openat2(2).
pub fn open_beneath(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlag,
    links: Links,
) -> nix::Result<OwnedFd> {
    let flags = flags | OFlag::O_CLOEXEC;
    let mut resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    if links == Links::Refuse {
        resolve |= ResolveFlag::RESOLVE_NO_SYMLINKS;
    }
    let how = OpenHow::new().flags(flags).resolve(resolve);
    for _ in 0..TRIES {
        match openat2(root, path, how) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // Linux before 5.6 has no openat2, and some seccomp filters refuse it.
            Err(Errno::ENOSYS | Errno::EPERM) => return walk(root, path, flags),
            opened => return opened,
        }
    }
    Err(Errno::EAGAIN)
}

/// Opens step by step, each with `O_NOFOLLOW`. Follows no link at all, also with [`Links::Follow`]:
/// without openat2(2), a link can't be followed safely.
fn walk(root: BorrowedFd<'_>, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::EXDEV) };
        let step = match parts.peek() {
            Some(_) => OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            None => flags,
        };
        let from = at.as_ref().map_or(root, AsFd::as_fd);
        at = Some(openat(from, name, step | OFlag::O_NOFOLLOW, Mode::empty())?);
    }
    at.ok_or(Errno::ENOENT)
}

/// Where an open file lies beneath an open folder now, as the kernel has it (proc(5)); `None`: it was
/// moved out of the folder.
pub fn place(root: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Option<PathBuf> {
    let path = |fd: BorrowedFd<'_>| std::fs::read_link(proc_path(fd)).ok();
    Some(path(file)?.strip_prefix(path(root)?).ok()?.to_owned())
}

/// A path to the open file itself, whatever its name is by now (proc(5)). It is valid in this process
/// only. A child can have it as its working directory, because that is set before exec closes the
/// descriptor.
pub fn proc_path(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Whether a path leads into a `.git`. The comparison ignores case, as some file systems do.
pub fn is_of_git(path: &Path) -> bool {
    path.iter().any(|part: &OsStr| part.eq_ignore_ascii_case(".git"))
}

/// Checks that `below` is a folder beneath `root` that is reached through no link, or does not exist.
///
/// # Errors
/// A sentence: something else is there, or it can't be looked at.
pub fn refuse_links(root: &Path, below: &Path) -> Result<(), String> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let opened =
        folder(root).and_then(|root| open_beneath(root.as_fd(), below, flags, Links::Refuse));
    match opened {
        Ok(_) | Err(Errno::ENOENT) => Ok(()),
        Err(Errno::ELOOP | Errno::EXDEV | Errno::ENOTDIR) => Err(format!(
            "{} is not the folder that was made for the attempt: a link or a file stands on the \
             way there",
            root.join(below).display()
        )),
        Err(error) => Err(format!("{}: {error}", root.join(below).display())),
    }
}

/// Removes a file beneath `root`. No link on the way is followed; a last link is removed itself. A
/// missing file is no error, a folder is one.
pub fn remove_file(root: &Path, below: &Path) -> std::io::Result<()> {
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else { return Ok(()) };
    let root = folder(root)?;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let removed = if parent.as_os_str().is_empty() {
        unlinkat(root.as_fd(), name, UnlinkatFlags::NoRemoveDir)
    } else {
        let opened = open_beneath(root.as_fd(), parent, flags, Links::Refuse);
        opened.and_then(|parent| unlinkat(parent.as_fd(), name, UnlinkatFlags::NoRemoveDir))
    };
    match removed {
        Err(Errno::ENOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    type Open = fn(BorrowedFd<'_>, &Path) -> nix::Result<OwnedFd>;

    const WAYS: [Open; 2] = [
        |root, path| open_beneath(root, path, OFlag::O_RDONLY, Links::Follow),
        |root, path| walk(root, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC),
    ];

    #[test]
    fn nothing_leads_out_with_or_without_the_system_call() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        fs::create_dir_all(root.join("dir")).unwrap();
        fs::write(scratch.path().join("secret"), "secret").unwrap();
        fs::write(root.join("dir/file"), "ours").unwrap();
        symlink("../secret", root.join("up")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("..", root.join("dir/parent")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let fd = folder(&root).unwrap();
        for open in WAYS {
            assert!(open(fd.as_fd(), Path::new("dir/file")).is_ok());
            for out in [
                "up",
                "absolute",
                "magic",
                "magic/etc/passwd",
                "../secret",
                "dir/../../secret",
                "dir/parent/up",
                "loop",
                "/etc/passwd",
            ] {
                let error = open(fd.as_fd(), Path::new(out)).unwrap_err();
                let is_out = matches!(error, Errno::EXDEV | Errno::ELOOP | Errno::ENOTDIR);
                assert!(is_out, "{out}: {error}");
            }
        }
    }

    #[test]
    fn links_that_stay_inside_are_followed_where_asked() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("dir")).unwrap();
        fs::write(scratch.path().join("file"), "").unwrap();
        symlink("../file", scratch.path().join("dir/link")).unwrap();
        let fd = folder(scratch.path()).unwrap();
        let open = |links| {
            open_beneath(fd.as_fd(), Path::new("dir/link"), OFlag::O_RDONLY, links).map(|_| ())
        };
        assert_eq!(open(Links::Follow), Ok(()));
        assert_eq!(open(Links::Refuse), Err(Errno::ELOOP));
    }

    #[test]
    fn a_folder_behind_a_link_is_refused_and_one_that_is_missing_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("real/repo")).unwrap();
        symlink("real", scratch.path().join("linked")).unwrap();
        symlink("../real/repo", scratch.path().join("real/link")).unwrap();
        let refuse = |below: &str| refuse_links(scratch.path(), Path::new(below));
        assert_eq!((refuse("real/repo"), refuse("real/gone")), (Ok(()), Ok(())));
        for below in ["linked/repo", "real/link"] {
            assert!(refuse(below).is_err(), "{below}");
        }
    }

    #[test]
    fn gits_own_is_recognized_whatever_its_case() {
        for inside in [".git", ".GIT/config", "sub/.Git", "a/.git/b"] {
            assert!(is_of_git(Path::new(inside)), "{inside}");
        }
        for outside in [".gitignore", "git", "a.git/b", ".git-x"] {
            assert!(!is_of_git(Path::new(outside)), "{outside}");
        }
    }
}

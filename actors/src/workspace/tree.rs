//! An open worktree, and pieces of the files in it. The agent may change anything at the same time, so
//! nothing is looked up twice: what was opened is examined and read. Everything here blocks.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstat};

use super::beneath::{self, Links};
use super::page::{self, Range};

/// Bytes of a file in which a line is looked for; one that begins later can't be read by its number.
pub const SCAN_MAX: u64 = 64 << 20;
/// Entries of a folder that an error names.
const ENTRIES_MAX: usize = 40;
/// Entries of a folder that are read.
const LISTED_MAX: usize = 10_000;

/// An open folder, the root of a worktree. It stays the same folder when its path gets another meaning.
pub struct Tree {
    dir: OwnedFd,
}

/// Why a piece of a file can't be read: a sentence about the path.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A link or `..` leads out, or the path leads into `.git`.
    #[error("the path leads out of the worktree")]
    Outside,
    #[error("it is not a regular file")]
    NotAFile,
    /// Its first entries, sorted; folders have a slash at the end.
    #[error("it is a folder")]
    Folder(Vec<String>),
    /// The line begins beyond [`SCAN_MAX`].
    #[error("the line begins beyond the first {SCAN_MAX} bytes")]
    TooFar,
    #[error("it does not exist")]
    NotFound,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What there is at a path.
pub enum Entry {
    Nothing,
    /// A regular file, open for reading.
    File(File),
    /// A symbolic link, with its target.
    Link(OsString),
    Folder,
    /// A pipe, a socket or a device; it was not opened.
    Special,
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub content: Vec<u8>,
    /// Of the whole file, when it was opened; less if it became shorter since then.
    pub size: u64,
    /// Where the piece begins, in bytes.
    pub offset: u64,
    /// How many lines it has, for [`Range::Lines`]; else 0.
    pub lines: u64,
    /// Its last line continues after it.
    pub in_line: bool,
}

impl Piece {
    /// Where the rest begins; `None`: the file ends with the piece.
    pub fn next_offset(&self) -> Option<u64> {
        let end = self.offset + self.content.len() as u64;
        (end < self.size).then_some(end)
    }
}

impl Tree {
    /// Opens `<worktrees>/<folder>/<name>`. Links below `worktrees` are refused, because the agent can
    /// write there.
    pub fn open(worktrees: &Path, folder: &str, name: &str) -> io::Result<Self> {
        let root = beneath::folder(worktrees)?;
        let path = Path::new(folder).join(name);
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let dir = beneath::open_beneath(root.as_fd(), &path, flags, Links::Refuse)?;
        Ok(Self { dir })
    }

    /// A path to the open folder itself, valid in this process for as long as this value exists.
    pub fn path(&self) -> PathBuf {
        beneath::proc_path(self.dir.as_fd())
    }

    /// Opens a path beneath the worktree.
    fn open_at(&self, path: &[u8], flags: OFlag, links: Links) -> nix::Result<OwnedFd> {
        beneath::open_beneath(self.dir.as_fd(), as_path(path), flags, links)
    }

    /// Whether there is anything at a path; links within the worktree are followed.
    pub fn has(&self, path: &[u8]) -> bool {
        self.open_at(path, OFlag::O_PATH, Links::Follow).is_ok()
    }

    /// Opens a folder (`O_PATH`), through no link; `None`: there is none.
    pub fn folder(&self, path: &[u8]) -> Option<OwnedFd> {
        self.open_at(path, OFlag::O_PATH | OFlag::O_DIRECTORY, Links::Refuse).ok()
    }

    /// What there is at a path now, not opened for reading. No link is followed: a last one is found
    /// itself.
    fn look(&self, path: &[u8]) -> Option<(OwnedFd, FileStat)> {
        let found = self.open_at(path, OFlag::O_PATH | OFlag::O_NOFOLLOW, Links::Refuse).ok()?;
        let stat = fstat(&found).ok()?;
        Some((found, stat))
    }

    /// The bytes of a file, or of a link's target; 0 for a folder or nothing, `None` for anything else.
    pub fn size(&self, path: &[u8]) -> Option<u64> {
        let Some((_, stat)) = self.look(path) else { return Some(0) };
        match kind(&stat) {
            SFlag::S_IFREG | SFlag::S_IFLNK => u64::try_from(stat.st_size).ok(),
            SFlag::S_IFDIR => Some(0),
            _ => None,
        }
    }

    /// Opens what there is at a path, without following links and without waiting for a writer of a pipe.
    pub fn entry(&self, path: &[u8]) -> io::Result<Entry> {
        let Some((found, stat)) = self.look(path) else { return Ok(Entry::Nothing) };
        match kind(&stat) {
            SFlag::S_IFREG => {}
            SFlag::S_IFDIR => return Ok(Entry::Folder),
            SFlag::S_IFLNK => {
                return Ok(readlinkat(&found, "").map_or(Entry::Nothing, Entry::Link));
            }
            _ => return Ok(Entry::Special),
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
        match self.open_at(path, flags, Links::Refuse) {
            Ok(file) if kind(&fstat(&file)?) == SFlag::S_IFREG => Ok(Entry::File(file.into())),
            // The file was replaced since the look.
            Ok(_) => Ok(Entry::Special),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => Ok(Entry::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// The existing path nearest to a missing one, for hints: in each folder, the name that differs only
    /// in case, else the one that `most_like` picks. `None`: no name is like it.
    pub fn nearest(
        &self,
        path: &[u8],
        most_like: impl Fn(&str, &[String]) -> Option<String>,
    ) -> Option<Vec<u8>> {
        let mut at = Vec::new();
        for part in path.split(|byte| *byte == b'/') {
            let within = |name: &[u8]| match at.as_slice() {
                [] => name.to_vec(),
                folder => [folder, b"/", name].concat(),
            };
            if self.has(&within(part)) {
                at = within(part);
                continue;
            }
            let part = std::str::from_utf8(part).ok()?;
            let names = self.names(&at, usize::MAX).ok()?;
            let names: Vec<String> = names.into_iter().map(|name| name.replace('/', "")).collect();
            let same = names.iter().find(|name| name.eq_ignore_ascii_case(part)).cloned();
            at = within(same.or_else(|| most_like(part, &names))?.as_bytes());
        }
        Some(at)
    }

    /// The entries of a folder, sorted, folders with a slash at the end, without `.git`; at most `max`.
    fn names(&self, folder: &[u8], max: usize) -> io::Result<Vec<String>> {
        let listed = if folder.is_empty() {
            fs::read_dir(self.path())?
        } else {
            let fd = self.open_at(folder, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Links::Follow)?;
            fs::read_dir(beneath::proc_path(fd.as_fd()))?
        };
        let mut names = Vec::new();
        for entry in listed.flatten().take(LISTED_MAX) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !name.eq_ignore_ascii_case(".git") {
                names.push(if is_folder { name + "/" } else { name });
            }
        }
        names.sort_unstable();
        names.truncate(max);
        Ok(names)
    }

    /// Reads a piece of a file. Links within the worktree are followed.
    pub fn read(&self, path: &[u8], range: Range) -> Result<Piece, FileError> {
        let opened = match path {
            b"" => Err(FileError::Folder(Vec::new())),
            path => open_file(self.dir.as_fd(), as_path(path)),
        };
        let file = match opened {
            Err(FileError::Folder(_)) => {
                return Err(FileError::Folder(self.names(path, ENTRIES_MAX)?));
            }
            opened => opened?,
        };
        let size = file.metadata()?.len();
        piece_of(&mut BufReader::with_capacity(64 * 1024, file), size, range)
    }
}

/// Reads a piece of an open file of this size.
fn piece_of(file: &mut (impl BufRead + Seek), size: u64, range: Range) -> Result<Piece, FileError> {
    let offset = match range {
        Range::Bytes { offset, .. } => offset.min(size),
        Range::Lines { start, .. } => skip_lines(file, start.saturating_sub(1), size)?,
    };
    file.seek(SeekFrom::Start(offset))?;
    let most = u64::try_from(range.max_bytes().saturating_add(page::BEYOND));
    let most = most.unwrap_or(u64::MAX).min(size - offset);
    let mut content = Vec::new();
    file.take(most).read_to_end(&mut content)?;
    // The file may have become shorter since its size was read.
    let size = if (content.len() as u64) < most { offset + content.len() as u64 } else { size };
    let is_end = offset + content.len() as u64 == size;
    let (mut lines, mut in_line) = (0, false);
    let len = match range {
        Range::Bytes { max_bytes, .. } => page::bytes(&content, max_bytes, is_end),
        Range::Lines { count, max_bytes, .. } => {
            let cut = page::lines(&content, count, max_bytes, is_end);
            (lines, in_line) = (cut.lines, cut.in_line && cut.len < content.len());
            cut.len
        }
    };
    content.truncate(len);
    Ok(Piece { content, size, offset, lines, in_line })
}

/// Bytes of git's as a path.
fn as_path(path: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path))
}

/// Opens a regular file for reading. `O_NONBLOCK`: the open of a pipe would wait for its writer.
fn open_file(root: BorrowedFd<'_>, path: &Path) -> Result<File, FileError> {
    if beneath::is_of_git(path) {
        return Err(FileError::Outside);
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let fd =
        beneath::open_beneath(root, path, flags, Links::Follow).map_err(|error| match error {
            Errno::EXDEV | Errno::ELOOP => FileError::Outside,
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG | Errno::EINVAL => {
                FileError::NotFound
            }
            // A socket, or a device whose hardware is missing (open(2)).
            Errno::ENXIO | Errno::ENODEV => FileError::NotAFile,
            other => FileError::Io(other.into()),
        })?;
    // A link within the worktree may lead into `.git`, so the place of the open file counts.
    if beneath::place(root, fd.as_fd()).is_none_or(|place| beneath::is_of_git(&place)) {
        return Err(FileError::Outside);
    }
    let file = File::from(fd);
    let found = file.metadata()?;
    if found.is_dir() {
        Err(FileError::Folder(Vec::new()))
    } else if found.is_file() {
        Ok(file)
    } else {
        Err(FileError::NotAFile)
    }
}

/// The type bits alone.
fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// The offset of the line after `count` others; the end of the file where it has fewer.
fn skip_lines(file: &mut impl BufRead, mut count: u64, size: u64) -> Result<u64, FileError> {
    let mut offset = 0;
    while count > 0 && offset < size {
        if offset >= SCAN_MAX {
            return Err(FileError::TooFar);
        }
        let buffer = file.fill_buf()?;
        if buffer.is_empty() {
            return Ok(offset);
        }
        let mut used = 0;
        while count > 0 && used < buffer.len() {
            match buffer[used..].iter().position(|byte| *byte == b'\n') {
                Some(at) => {
                    used += at + 1;
                    count -= 1;
                }
                None => used = buffer.len(),
            }
        }
        file.consume(used);
        offset += used as u64;
    }
    Ok(offset.min(size))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use nix::sys::stat::Mode;

    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf, Tree) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("folder/repo");
        fs::create_dir_all(&path).unwrap();
        let tree = Tree::open(scratch.path(), "folder", "repo").unwrap();
        (scratch, path, tree)
    }

    fn whole(tree: &Tree, path: &str) -> Result<Vec<u8>, FileError> {
        let range = Range::Bytes { offset: 0, max_bytes: 1 << 20 };
        tree.read(path.as_bytes(), range).map(|piece| piece.content)
    }

    #[test]
    fn lines_and_bytes_are_found_where_they_are() {
        let (_scratch, path, tree) = tree();
        let numbers: Vec<String> = (1..=30_000).map(|n| n.to_string()).collect();
        let text = format!("line {}\n", numbers.join("\nline "));
        fs::write(path.join("f"), &text).unwrap();
        let read = |range| tree.read(b"f", range).unwrap();
        let lines = read(Range::Lines { start: 20_001, count: 2, max_bytes: 100 });
        assert_eq!(lines.content, b"line 20001\nline 20002\n");
        assert_eq!((lines.lines, lines.in_line), (2, false));
        let rest = read(Range::Bytes { offset: lines.next_offset().unwrap(), max_bytes: 10 });
        assert_eq!(rest.content, b"line 20003");
        for beyond in [
            Range::Bytes { offset: 1 << 40, max_bytes: 10 },
            Range::Lines { start: 1 << 40, count: 1, max_bytes: 10 },
        ] {
            let piece = read(beyond);
            assert_eq!((piece.content.len(), piece.next_offset()), (0, None));
            assert_eq!(piece.size, text.len() as u64);
        }
    }

    #[test]
    fn what_is_no_file_is_reported_and_never_waited_for() {
        let (_scratch, path, tree) = tree();
        fs::create_dir(path.join("dir")).unwrap();
        nix::unistd::mkfifo(&path.join("fifo"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
        for name in ["fifo", "socket"] {
            assert!(matches!(whole(&tree, name), Err(FileError::NotAFile)), "{name}");
        }
        fs::write(path.join("dir/b"), "").unwrap();
        fs::create_dir(path.join("dir/a")).unwrap();
        let Err(FileError::Folder(names)) = whole(&tree, "dir") else { panic!("a folder") };
        assert_eq!(names, ["a/", "b"]);
        assert!(matches!(whole(&tree, "none"), Err(FileError::NotFound)));
        assert!(matches!(whole(&tree, "dir/none/x"), Err(FileError::NotFound)));
    }

    #[test]
    fn a_line_is_not_looked_for_without_end() {
        let (_scratch, path, tree) = tree();
        File::create(path.join("sparse")).unwrap().set_len(1 << 43).unwrap();
        let far = Range::Lines { start: 2, count: 1, max_bytes: 10 };
        assert!(matches!(tree.read(b"sparse", far), Err(FileError::TooFar)));
        // From a byte on, all of it can be read.
        let range = Range::Bytes { offset: 1 << 42, max_bytes: 10 };
        let piece = tree.read(b"sparse", range).unwrap();
        assert_eq!((piece.content.len(), piece.offset), (10, 1 << 42));
    }

    #[test]
    fn a_path_that_is_slightly_off_leads_to_the_one_that_was_meant() {
        let (_scratch, path, tree) = tree();
        fs::create_dir_all(path.join("Src/deep")).unwrap();
        fs::write(path.join("Src/deep/Main.rs"), "").unwrap();
        let like = |given: &str, names: &[String]| {
            names.iter().find(|name| name.starts_with(&given[..1])).cloned()
        };
        let near = |path: &str| tree.nearest(path.as_bytes(), like);
        for given in ["src/deep/main.rs", "Src/depe/Main.rs", "Src/deep/Main.rs"] {
            assert_eq!(near(given).as_deref(), Some(&b"Src/deep/Main.rs"[..]), "{given}");
        }
        assert_eq!(near("other/x"), None);
    }

    #[test]
    fn gits_own_is_out_of_reach_also_by_a_link() {
        let (_scratch, path, tree) = tree();
        fs::create_dir_all(path.join("sub/.git")).unwrap();
        fs::write(path.join("sub/.git/config"), "x").unwrap();
        fs::write(path.join(".git"), "x").unwrap();
        symlink("sub/.git/config", path.join("link")).unwrap();
        symlink("sub/.git", path.join("linked")).unwrap();
        for name in [".git", "sub/.git/config", "link", "linked/config"] {
            assert!(matches!(whole(&tree, name), Err(FileError::Outside)), "{name}");
        }
    }

    #[test]
    fn a_worktree_that_became_a_link_is_not_opened() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("folder")).unwrap();
        symlink("/", scratch.path().join("folder/repo")).unwrap();
        symlink("/", scratch.path().join("linked")).unwrap();
        assert!(Tree::open(scratch.path(), "folder", "repo").is_err());
        assert!(Tree::open(scratch.path(), "linked", "etc").is_err());
    }

    #[test]
    fn a_folder_swapped_for_a_link_meanwhile_never_leads_out() {
        let (scratch, path, tree) = tree();
        let outside = scratch.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("f"), "secret").unwrap();
        fs::create_dir(path.join("real")).unwrap();
        fs::write(path.join("real/f"), "ours").unwrap();
        symlink(&outside, path.join("link")).unwrap();
        fs::rename(path.join("real"), path.join("d")).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let swap = |from: &str, to: &str| fs::rename(path.join(from), path.join(to));
                while !is_over.load(Ordering::Relaxed) {
                    swap("d", "real").unwrap();
                    swap("link", "d").unwrap();
                    swap("d", "link").unwrap();
                    swap("real", "d").unwrap();
                }
            });
            for _ in 0..2000 {
                if let Ok(content) = whole(&tree, "d/f") {
                    assert_eq!(content, b"ours");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

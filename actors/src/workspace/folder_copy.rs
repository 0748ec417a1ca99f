//! Copies a folder from beneath one folder to beneath another, with its files and links: into the cache
//! of setups, and from there into a worktree.
//!
//! Half a folder would not work, so some things refuse the whole copy: a link that [`LinkRule`] does not
//! allow, a pipe, a device. A file that holds the path of the worktree that it was made in would not work
//! at another place: it refuses the copy too, or gets the path of the new worktree. Everything here
//! blocks.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::unistd::symlinkat;
use serde::{Deserialize, Serialize};

use super::beneath::{self, Links};
use super::links::{LEADS_OUT, LinkRule};
use super::plain_file;
use super::reflink::Reflink;

/// Folders in folders. A real one has far fewer, and the copy is recursive.
const DEPTH_MAX: usize = 128;
/// Bytes at the beginning of a file that are searched for a path. Scripts and lists, which hold such
/// paths, are short.
const SEARCHED: u64 = 64 * 1024;
/// Bytes of the longest text whose paths are replaced.
const MOVED_MAX: u64 = 8 << 20;
/// What a file, a folder or a link counts beside its content, in bytes: a file system may run out of
/// inodes before it runs out of space.
const ENTRY_COSTS: u64 = 4096;
/// How folders are opened: as a place for further opens, never through a link.
const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW);

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Copied {
    pub files: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// Of the files' content.
    pub bytes: u64,
    /// Files that share their blocks with the original.
    pub cloned: u64,
}

impl Copied {
    /// What it counts for a limit, in bytes: the content, and a share for each entry.
    pub fn cost(&self) -> u64 {
        self.entries.saturating_mul(ENTRY_COSTS).saturating_add(self.bytes)
    }
}

/// Why a folder was not copied.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It can't be copied as it is: the rest of a sentence.
    #[error("{0}")]
    Refused(String),
    /// Reading or writing failed; another try may work.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for FolderError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// What happens to a file that holds the path of a worktree.
enum Held {
    /// It is copied as it is.
    Copied,
    /// It refuses the copy, if it holds one of these paths.
    Refused(Vec<PathBuf>),
    /// In texts and links, the second path of a pair replaces the first.
    Moved(Vec<(PathBuf, PathBuf)>),
}

/// A copy of one or more folders, with one limit for all of them.
pub struct FolderCopy {
    reflink: Reflink,
    max_bytes: u64,
    links: LinkRule,
    held: Held,
    /// What was copied until now.
    pub done: Copied,
}

impl FolderCopy {
    /// At most `max_bytes` are copied, by [`Copied::cost`]. `private` are real folders that no link may
    /// lead into.
    pub fn new(max_bytes: u64, private: Vec<PathBuf>) -> Self {
        let (reflink, done) = (Reflink::new(), Copied::default());
        Self { reflink, max_bytes, links: LinkRule { private }, held: Held::Copied, done }
    }

    /// Refuses files that hold one of these paths: they would not work at another place.
    #[must_use]
    pub fn refusing(self, paths: Vec<PathBuf>) -> Self {
        Self { held: Held::Refused(paths), ..self }
    }

    /// In texts and links, the second path of each pair replaces the first. A pair of the same path twice
    /// changes nothing, but allows links to the path.
    #[must_use]
    pub fn moving(self, paths: Vec<(PathBuf, PathBuf)>) -> Self {
        Self { held: Held::Moved(paths), ..self }
    }

    /// Copies a file or folder to the same path beneath `to`, where nothing may stand yet. Missing
    /// folders above it are made.
    ///
    /// # Errors
    /// What was copied until then stays; the caller removes it.
    pub fn copy(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        path: &Path,
    ) -> Result<(), FolderError> {
        let name = path.file_name().ok_or(Errno::EINVAL)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let from = folder(from, parent)?;
        let mut at = to.try_clone_to_owned()?;
        for part in parent.components() {
            let part = Path::new(part.as_os_str());
            match mkdirat(at.as_fd(), part, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = beneath::open_beneath(at.as_fd(), part, FOLDER, Links::Refuse)?;
        }
        let above = path.components().count();
        self.entry(from.as_fd(), at.as_fd(), name, (above, None))
    }

    /// Copies one entry of a folder. `above` is the number of components of the copied folder's path, and
    /// `depth` how many levels below it the folder lies that holds the entry; `None`: the entry is the
    /// copied folder itself. A link may lead up as many levels as both together.
    fn entry(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &OsStr,
        (above, depth): (usize, Option<usize>),
    ) -> Result<(), FolderError> {
        let path = Path::new(name);
        self.done.entries += 1;
        self.stay_within(0)?;
        match plain_file::kind_at(from, name)? {
            SFlag::S_IFREG => {
                let source = plain_file::open(from, name)?;
                let source = source.ok_or_else(|| refused(name, "is not a regular file"))?;
                self.file(&source, to, name)
            }
            SFlag::S_IFDIR => {
                let inner = depth.map_or(0, |depth| depth + 1);
                if inner > DEPTH_MAX {
                    return Err(refused(name, "lies too deep"));
                }
                let found = beneath::open_beneath(from, path, FOLDER, Links::Refuse)?;
                self.folder(found.as_fd(), to, path, (above, inner))
            }
            SFlag::S_IFLNK => {
                let target = PathBuf::from(readlinkat(from, path)?);
                let Some(depth) = depth else {
                    return Err(refused(name, "is a link"));
                };
                let moved = self.moved(&target);
                if moved.is_none() && !self.links.allows(&target, above + depth) {
                    return Err(refused(name, LEADS_OUT));
                }
                Ok(symlinkat(moved.as_ref().unwrap_or(&target), to, path)?)
            }
            _ => Err(refused(name, "is neither a file nor a folder nor a link")),
        }
    }

    /// Refuses a copy that `more` bytes would make larger than the limit.
    fn stay_within(&self, more: u64) -> Result<(), FolderError> {
        let is_within = self.done.cost().saturating_add(more) <= self.max_bytes;
        is_within
            .then_some(())
            .ok_or_else(|| FolderError::Refused("it is larger than the limit".to_owned()))
    }

    /// The new target of a link into a path that is replaced. A target with `..` is left alone.
    fn moved(&self, target: &Path) -> Option<PathBuf> {
        let Held::Moved(paths) = &self.held else { return None };
        let is_plain = !target.components().any(|part| part == Component::ParentDir);
        let below =
            |(old, new): &(PathBuf, PathBuf)| Some(new.join(target.strip_prefix(old).ok()?));
        is_plain.then(|| paths.iter().find_map(below))?
    }

    /// The content of a text with the new paths in place of the old ones; `None`: the file is copied as
    /// it is. A file with a zero byte at its beginning is no text.
    fn text_of_new_place(&self, source: &File, size: u64) -> io::Result<Option<Vec<u8>>> {
        let Held::Moved(paths) = &self.held else { return Ok(None) };
        if size > MOVED_MAX || paths.iter().all(|(old, new)| old == new) {
            return Ok(None);
        }
        let mut text = beginning(source, SEARCHED)?;
        if text.contains(&0) {
            return Ok(None);
        }
        if size > SEARCHED {
            text = beginning(source, size)?;
        }
        let mut is_changed = false;
        for (old, new) in paths {
            let (old, new) = (old.as_os_str().as_bytes(), new.as_os_str().as_bytes());
            if holds(&text, old) {
                text = replaced(&text, old, new);
                is_changed = true;
            }
        }
        Ok(is_changed.then_some(text))
    }

    /// Refuses a file that holds a path that must not be in it.
    fn look_for_path(&self, source: &File, path: &Path) -> Result<(), FolderError> {
        // Python writes the path of the source into compiled files, but only for error messages.
        let is_compiled = path.extension().is_some_and(|it| it == "pyc");
        let Held::Refused(paths) = &self.held else { return Ok(()) };
        if is_compiled {
            return Ok(());
        }
        let start = beginning(source, SEARCHED)?;
        if paths.iter().any(|path| holds(&start, path.as_os_str().as_bytes())) {
            let why =
                "holds the path of the worktree, which `setup.after_restore = \"run\"` allows";
            return Err(refused(path.as_os_str(), why));
        }
        Ok(())
    }

    /// Copies a file: with replaced paths, as a clone, or byte by byte.
    fn file(
        &mut self,
        (source, found): &(File, FileStat),
        to: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(), FolderError> {
        let size = u64::try_from(found.st_size).unwrap_or(0);
        self.stay_within(size)?;
        self.look_for_path(source, Path::new(name))?;
        let text = self.text_of_new_place(source, size)?;
        let made = plain_file::create(to, name, found)?;
        if let Some(text) = &text {
            io::Write::write_all(&mut &made, text)?;
        } else if self.reflink.share(source, &made) {
            self.done.cloned += 1;
        } else {
            io::copy(&mut io::Read::take(source, size), &mut &made)?;
        }
        plain_file::complete(&made, found)?;
        if text.is_some() {
            // A compiled file records the time and the length of its source, and the new text may have both.
            // With another time, the compiled file counts as out of date.
            made.set_modified(SystemTime::now())?;
        }
        self.done.files += 1;
        self.done.bytes += size;
        Ok(())
    }

    /// Copies a folder and all that is in it.
    fn folder(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        path: &Path,
        (above, depth): (usize, usize),
    ) -> Result<(), FolderError> {
        let mode = fstat(from)?.st_mode & 0o777;
        mkdirat(to, path, Mode::S_IRWXU)?;
        let made = beneath::open_beneath(to, path, FOLDER, Links::Refuse)?;
        for entry in fs::read_dir(beneath::proc_path(from))? {
            self.entry(from, made.as_fd(), &entry?.file_name(), (above, Some(depth)))?;
        }
        // The mode comes last: a read-only folder could not be filled.
        fs::set_permissions(beneath::proc_path(made.as_fd()), Permissions::from_mode(mode))?;
        Ok(())
    }
}

/// The first `most` bytes of a file. The file is rewound, for the copy that follows.
fn beginning(source: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(source, most), &mut start)?;
    io::Seek::rewind(&mut &*source)?;
    Ok(start)
}

/// Whether a text has the bytes of a path anywhere.
fn holds(text: &[u8], path: &[u8]) -> bool {
    memchr::memmem::find(text, path).is_some()
}

/// The text with `new` in place of each `old`.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut made, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = memchr::memmem::find(rest, old) {
        made.extend_from_slice(&rest[..at]);
        made.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    made.extend_from_slice(rest);
    made
}

fn refused(name: &OsStr, why: &str) -> FolderError {
    FolderError::Refused(format!("{:?} {why}", name.to_string_lossy()))
}

/// Opens a folder beneath another one, through no link; the folder itself for an empty path.
pub(super) fn folder(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    if path.as_os_str().is_empty() {
        return root.try_clone_to_owned();
    }
    Ok(beneath::open_beneath(root, path, FOLDER, Links::Refuse)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    struct Scene {
        scratch: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { scratch: tempfile::tempdir().unwrap() };
            fs::create_dir_all(scene.from().join("tree/sub/deep")).unwrap();
            fs::create_dir(scene.to()).unwrap();
            scene
        }

        fn from(&self) -> PathBuf {
            self.scratch.path().join("from")
        }

        fn to(&self) -> PathBuf {
            self.scratch.path().join("to")
        }

        fn copy(&self, path: &str, max: u64) -> Result<Copied, FolderError> {
            let from = beneath::folder(&self.from()).unwrap();
            let to = beneath::folder(&self.to()).unwrap();
            let mut copy =
                FolderCopy::new(max, vec!["/usr/share".into()]).refusing(vec![self.from()]);
            copy.copy(from.as_fd(), to.as_fd(), Path::new(path)).map(|()| copy.done)
        }
    }

    #[test]
    fn a_folder_is_copied_with_modes_times_and_links_that_stay_in_it() {
        let scene = Scene::new();
        let tree = scene.from().join("tree");
        fs::write(tree.join("sub/run"), "#!/bin/sh").unwrap();
        fs::set_permissions(tree.join("sub/run"), Permissions::from_mode(0o755)).unwrap();
        fs::write(tree.join("sub/deep/file"), "file").unwrap();
        symlink("../sub/run", tree.join("sub/link")).unwrap();
        symlink("sub", tree.join("folder-link")).unwrap();
        fs::set_permissions(tree.join("sub/deep"), Permissions::from_mode(0o555)).unwrap();
        let copied = scene.copy("tree", 1 << 20).unwrap();
        assert_eq!((copied.files, copied.bytes), (2, 13));
        let made = scene.to().join("tree");
        assert_eq!(fs::read_to_string(made.join("folder-link/link")).unwrap(), "#!/bin/sh");
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(made.join("sub/run")), mode(made.join("sub/deep"))), (0o755, 0o555));
        let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(made.join("sub/run")), time(tree.join("sub/run")));
        assert!(matches!(scene.copy("tree", 1 << 20), Err(FolderError::Io(_))), "it is there");
        for folder in [tree, made] {
            fs::set_permissions(folder.join("sub/deep"), Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn a_link_that_leads_out_and_a_size_beyond_the_limit_are_refused() {
        let with_parent = "/usr/bin/../bin/env";
        for target in
            ["/etc/passwd", "/usr/none", with_parent, "../../x", "deep/../../..", "../..", ""]
        {
            let scene = Scene::new();
            // An empty target can't be made.
            if symlink(target, scene.from().join("tree/out")).is_ok() {
                let refused = scene.copy("tree", 1 << 20);
                assert!(matches!(refused, Err(FolderError::Refused(_))), "{target}: {refused:?}");
            }
        }
        let scene = Scene::new();
        symlink("tree", scene.from().join("linked")).unwrap();
        assert!(matches!(scene.copy("linked", 1 << 20), Err(FolderError::Refused(_))));
        assert!(scene.copy("linked/sub", 1 << 20).is_err(), "a link is on the way");
        fs::write(scene.from().join("tree/file"), [0; 1000]).unwrap();
        assert!(matches!(scene.copy("tree", 1000), Err(FolderError::Refused(_))));
    }

    #[test]
    fn links_to_the_system_and_into_the_rest_of_the_worktree_are_copied_as_links() {
        let scene = Scene::new();
        let links = [("tree/python", "/usr/bin/env"), ("tree/sub/package", "../../packages/a")];
        for (link, target) in links {
            symlink(target, scene.from().join(link)).unwrap();
        }
        fs::write(scene.from().join("tree/sub/made.pyc"), scene.from().to_str().unwrap()).unwrap();
        scene.copy("tree", 1 << 20).unwrap();
        for (link, target) in links {
            assert_eq!(fs::read_link(scene.to().join(link)).unwrap(), Path::new(target));
        }
        fs::remove_dir_all(scene.to().join("tree")).unwrap();
        symlink("/usr/share", scene.from().join("tree/private")).unwrap();
        assert!(matches!(scene.copy("tree", 1 << 20), Err(FolderError::Refused(_))));
    }

    #[test]
    fn a_script_with_the_path_of_the_worktree_is_refused() {
        let scene = Scene::new();
        let text = format!("#!{}/tree/bin/python3\n", scene.from().display());
        fs::write(scene.from().join("tree/pip"), text).unwrap();
        let refused = scene.copy("tree", 1 << 20);
        assert!(
            matches!(&refused, Err(FolderError::Refused(why)) if why.contains("\"pip\" holds the path")),
            "{refused:?}"
        );
    }

    #[test]
    fn a_copy_for_another_place_has_the_path_of_that_one_in_its_texts_and_links() {
        let scene = Scene::new();
        let (old, tree) = (scene.from().join("tree"), scene.from().join("tree"));
        let shebang = format!("#!{}/bin/python3\n", old.display());
        fs::write(tree.join("tool"), &shebang).unwrap();
        fs::write(tree.join("long"), format!("{}{shebang}", "x".repeat(100_000))).unwrap();
        fs::write(tree.join("binary"), format!("\0{shebang}")).unwrap();
        symlink(old.join("sub"), tree.join("link")).unwrap();
        symlink(old.join("../sub"), tree.join("sub/out")).unwrap();
        let from = beneath::folder(&scene.from()).unwrap();
        let to = beneath::folder(&scene.to()).unwrap();
        let new = PathBuf::from("/another/place");
        let copy = || {
            let mut copy =
                FolderCopy::new(1 << 20, vec![]).moving(vec![(old.clone(), new.clone())]);
            copy.copy(from.as_fd(), to.as_fd(), Path::new("tree"))
        };
        assert!(matches!(copy(), Err(FolderError::Refused(_))), "a link that may lead out");
        fs::remove_file(tree.join("sub/out")).unwrap();
        fs::remove_dir_all(scene.to().join("tree")).unwrap();
        copy().unwrap();
        let made = scene.to().join("tree");
        let expected = "#!/another/place/bin/python3\n";
        assert_eq!(fs::read_to_string(made.join("tool")).unwrap(), expected);
        assert!(fs::read_to_string(made.join("long")).unwrap().ends_with(expected));
        assert_eq!(fs::read_to_string(made.join("binary")).unwrap(), format!("\0{shebang}"));
        assert_eq!(fs::read_link(made.join("link")).unwrap(), new.join("sub"));
        let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        assert_ne!(time(made.join("tool")), time(tree.join("tool")));
    }
}

//! Copies a folder from beneath one folder to beneath another, with its files and links. A link
//! must stay beneath the folder that it is copied from, or lead to a file of the system. Any other
//! link, a pipe or a device refuses the whole copy: without it, the folder would not work.
//! Blocking.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::unistd::symlinkat;
use serde::{Deserialize, Serialize};

use super::beneath::{self, Links};
use super::plain_file;
use super::reflink::Reflink;

/// Folders in folders. A real one has far fewer.
const DEPTH_MAX: usize = 128;
/// Where programs and libraries of the system lie.
const SYSTEM: [&str; 7] = ["/bin", "/lib", "/lib64", "/nix/store", "/opt", "/sbin", "/usr"];
/// Bytes at the beginning of a file that are searched for a path: scripts and lists are short.
const SEARCHED: u64 = 64 * 1024;
/// What a file, a folder or a link takes up beside its content, for the limit: a file system may
/// run out of inodes before it runs out of bytes.
const ENTRY_COSTS: u64 = 4096;
const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Copied {
    pub files: u64,
    /// Files, folders and links.
    pub entries: u64,
    pub bytes: u64,
    /// Files that share their blocks with the original.
    pub cloned: u64,
}

impl Copied {
    /// What it takes up, for the limit.
    pub fn cost(&self) -> u64 {
        self.entries.saturating_mul(ENTRY_COSTS).saturating_add(self.bytes)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The rest of a sentence.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for FolderError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// A copy of one or more folders, which takes up at most so many bytes together.
pub struct FolderCopy {
    reflink: Reflink,
    max_bytes: u64,
    /// Real folders that no link may lead into.
    private: Vec<PathBuf>,
    /// A path that no file may hold in its first bytes.
    refused: Option<Vec<u8>>,
    pub done: Copied,
}

impl FolderCopy {
    pub fn new(max_bytes: u64, private: Vec<PathBuf>) -> Self {
        let (reflink, done) = (Reflink::new(), Copied::default());
        Self { reflink, max_bytes, private, refused: None, done }
    }

    /// Refuses files that hold this path: they would not work at another one.
    #[must_use]
    pub fn refusing(self, path: &Path) -> Self {
        Self { refused: Some(path.as_os_str().as_bytes().to_vec()), ..self }
    }

    /// Copies a file or folder to the same path beneath `to`, where nothing may stand yet.
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

    /// `depth` is that of the folder that holds it, in the copied one, which has so many folders
    /// `above` the content; `None`: it is the copied one itself.
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
                let target = readlinkat(from, path)?;
                let target_path = Path::new(&target);
                let Some(depth) = depth else {
                    return Err(refused(name, "is a link"));
                };
                if !stays(target_path, above + depth) && !self.is_of_system(target_path) {
                    return Err(refused(name, "is a link that leads out of the worktree"));
                }
                Ok(symlinkat(target.as_os_str(), to, path)?)
            }
            _ => Err(refused(name, "is neither a file nor a folder nor a link")),
        }
    }

    /// Refuses a copy that is larger than the limit with so many bytes more.
    fn stay_within(&self, more: u64) -> Result<(), FolderError> {
        let is_within = self.done.cost().saturating_add(more) <= self.max_bytes;
        is_within
            .then_some(())
            .ok_or_else(|| FolderError::Refused("it is larger than the limit".to_owned()))
    }

    /// Whether a link leads to a program or library of the system, such as `/usr/bin/python3`.
    fn is_of_system(&self, target: &Path) -> bool {
        let is_plain = !target.components().any(|part| part == Component::ParentDir);
        let Some(real) = target.canonicalize().ok().filter(|_| is_plain) else { return false };
        [target, &real].iter().all(|path| {
            SYSTEM.iter().any(|folder| path.starts_with(folder))
                && !self.private.iter().any(|folder| path.starts_with(folder))
        })
    }

    /// Refuses a file that holds the path.
    fn look_for_path(&self, source: &File, path: &Path) -> Result<(), FolderError> {
        // Python names the source in it for error messages alone.
        let is_compiled = path.extension().is_some_and(|it| it == "pyc");
        let Some(text) = self.refused.as_ref().filter(|_| !is_compiled) else { return Ok(()) };
        let mut start = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(source, SEARCHED), &mut start)?;
        io::Seek::rewind(&mut &*source)?;
        if start.windows(text.len()).any(|window| window == text.as_slice()) {
            return Err(refused(path.as_os_str(), "holds the path of the worktree"));
        }
        Ok(())
    }

    fn file(
        &mut self,
        (source, found): &(File, FileStat),
        to: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(), FolderError> {
        let size = u64::try_from(found.st_size).unwrap_or(0);
        self.stay_within(size)?;
        self.look_for_path(source, Path::new(name))?;
        let made = plain_file::create(to, name, found)?;
        if self.reflink.share(source, &made) {
            self.done.cloned += 1;
        } else {
            io::copy(&mut io::Read::take(source, size), &mut &made)?;
        }
        plain_file::complete(&made, found)?;
        self.done.files += 1;
        self.done.bytes += size;
        Ok(())
    }

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
        // Last: a folder that nothing may be written to could not be filled.
        fs::set_permissions(beneath::proc_path(made.as_fd()), Permissions::from_mode(mode))?;
        Ok(())
    }
}

fn refused(name: &OsStr, why: &str) -> FolderError {
    FolderError::Refused(format!("{:?} {why}", name.to_string_lossy()))
}

/// A folder beneath another one. No link leads there.
pub(super) fn folder(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    if path.as_os_str().is_empty() {
        return root.try_clone_to_owned();
    }
    Ok(beneath::open_beneath(root, path, FOLDER, Links::Refuse)?)
}

/// Whether a link that lies `depth` folders deep stays beneath the folder. Each `..` stands
/// before all names, so that no other link on the way changes where it leads.
fn stays(target: &Path, depth: usize) -> bool {
    let up = target.components().take_while(|part| *part == Component::ParentDir).count();
    let goes_down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !target.as_os_str().as_bytes().is_empty()
        && up <= depth
        && target.components().skip(up).all(goes_down)
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
            let mut copy = FolderCopy::new(max, vec!["/usr/share".into()]).refusing(&self.from());
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
    fn links_are_judged_by_the_folders_that_they_lie_in() {
        for (target, depth) in [("a", 0), ("./a/b", 0), ("../a", 1), ("../../a", 2), ("..", 1)] {
            assert!(stays(Path::new(target), depth), "{target}");
        }
        for (target, depth) in [("..", 0), ("../../a", 1), ("/a", 9), ("a/../../b", 9), ("", 9)] {
            assert!(!stays(Path::new(target), depth), "{target}");
        }
    }
}

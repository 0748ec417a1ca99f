//! What setups have made, for later worktrees with the same key. An entry appears whole, by a
//! rename, and is never changed; the entries that were used longest ago go first when there is no
//! room. Blocking.
//!
//! ```text
//! cache/<repository id>/<key>/
//!   entry.json       last: what it is; the time of its change is that of its last use
//!   tree/<path>      one for each path that the settings declare
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{SFlag, fstat};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::RwLock;

use super::beneath::{self, Links};
use super::folder_copy::{self, Copied, FolderCopy, FolderError};
use super::removal::remove;
use super::snapshot::Source;
use crate::blocking::if_there;
use crate::failpoint;
use crate::process::records;
use crate::text::hex;

const ENTRY: &str = "entry.json";
const TREE: &str = "tree";
/// Bytes of the longest file that a key is made of.
const KEY_FILE_MAX: u64 = 64 << 20;
/// Held to read entries, and alone to add or remove one: none goes while it is copied.
static IN_USE: RwLock<()> = RwLock::const_new(());

/// A folder of entries.
#[derive(Clone, Debug)]
pub struct Cache {
    pub dir: PathBuf,
    /// On the same file system. Emptied when a daemon starts.
    pub scratch: PathBuf,
    /// 0: nothing is kept, and nothing is taken from it.
    pub max_bytes: u64,
}

/// What a setup depends on and what it makes.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The name of the repository in the cache.
    pub repo: String,
    pub command: String,
    pub key_files: Vec<String>,
    pub paths: Vec<String>,
    /// The worktree that it is about.
    pub source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    command: String,
    #[serde(flatten)]
    copied: Copied,
}

/// An entry, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `<repository id>/<key>`
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    cost: u64,
    pub used: SystemTime,
}

impl Recipe {
    fn open(&self) -> io::Result<OwnedFd> {
        let root = beneath::folder(&self.source.worktrees)?;
        folder_copy::folder(root.as_fd(), &Path::new(&self.source.folder).join(&self.source.name))
    }

    /// The hash of the command, of the platform and of the content of the files, in hexadecimal
    /// digits. `Err` says why there is none.
    pub fn key(&self) -> Result<String, FolderError> {
        let worktree = self.open()?;
        let mut files = BTreeMap::new();
        for path in &self.key_files {
            files.insert(path, file_hash(worktree.as_fd(), Path::new(path))?);
        }
        let platform = [std::env::consts::OS, std::env::consts::ARCH];
        let what = json!({"command": self.command, "paths": self.paths, "files": files,
            "platform": platform});
        Ok(hex(&Sha256::digest(what.to_string())))
    }

    /// The paths, without those that lie in another one.
    fn roots(&self) -> Vec<&Path> {
        let paths: Vec<&Path> = self.paths.iter().map(Path::new).collect();
        let is_inner =
            |path: &&Path| paths.iter().any(|other| path != other && path.starts_with(other));
        let mut roots: Vec<&Path> = paths.iter().filter(|path| !is_inner(path)).copied().collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }
}

/// `None`: there is no such file.
fn file_hash(root: BorrowedFd<'_>, path: &Path) -> Result<Option<String>, FolderError> {
    let refused =
        |why: &str| FolderError::Refused(format!("{} of cache_key {why}", path.display()));
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    let file = match beneath::open_beneath(root, path, flags, Links::Refuse) {
        Ok(file) => file,
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
        Err(Errno::ELOOP | Errno::EXDEV) => return Err(refused("is a link")),
        Err(error) => return Err(error.into()),
    };
    if SFlag::from_bits_truncate(fstat(&file)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(refused("is not a regular file"));
    }
    let (mut hasher, mut file) = (Sha256::new(), File::from(file).take(KEY_FILE_MAX + 1));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    if file.limit() == 0 {
        return Err(refused(&format!("is longer than {KEY_FILE_MAX} bytes")));
    }
    Ok(Some(hex(&hasher.finalize())))
}

/// Whether nothing stands at any of the paths of a worktree yet.
pub fn has_none(recipe: &Recipe) -> io::Result<bool> {
    let worktree = recipe.open()?;
    for path in recipe.roots() {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        match beneath::open_beneath(worktree.as_fd(), path, flags, Links::Refuse) {
            Err(Errno::ENOENT) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Removes what stands at the paths: part of an entry, of a copy that was cut off.
pub fn clear(recipe: &Recipe) -> io::Result<()> {
    let worktree = recipe.open()?;
    for path in recipe.roots() {
        let Some(name) = path.file_name() else { continue };
        let parent = path.parent().unwrap_or(Path::new(""));
        if let Some(parent) = if_there(folder_copy::folder(worktree.as_fd(), parent))? {
            if_there(remove(&beneath::proc_path(parent.as_fd()).join(name)))?;
        }
    }
    Ok(())
}

impl Cache {
    fn entry(&self, repo: &str, key: &str) -> PathBuf {
        self.dir.join(repo).join(key)
    }

    pub fn has(&self, recipe: &Recipe, key: &str) -> bool {
        self.max_bytes > 0 && self.entry(&recipe.repo, key).join(ENTRY).exists()
    }

    /// The folders that no link of an entry may lead into.
    fn private(&self, recipe: &Recipe) -> io::Result<Vec<PathBuf>> {
        let folders = [&self.dir, &recipe.source.worktrees, &recipe.source.repo];
        let real = folders.into_iter().map(|folder| if_there(folder.canonicalize()));
        real.filter_map(Result::transpose).collect()
    }

    /// Copies an entry into a worktree that has nothing at its paths. `None`: there is no such
    /// entry.
    pub fn take(&self, recipe: &Recipe, key: &str) -> Result<Option<Copied>, FolderError> {
        let _kept = IN_USE.blocking_read();
        let dir = self.entry(&recipe.repo, key);
        let Some(marker) = if_there(File::options().append(true).open(dir.join(ENTRY)))? else {
            return Ok(None);
        };
        marker.set_modified(SystemTime::now())?;
        let (from, to) = (beneath::folder(&dir.join(TREE))?, recipe.open()?);
        let mut copy = FolderCopy::new(u64::MAX, self.private(recipe)?);
        for path in recipe.roots() {
            copy.copy(from.as_fd(), to.as_fd(), path)?;
            failpoint::hit("cache", "copied");
        }
        Ok(Some(copy.done))
    }

    /// Makes an entry of what stands at the paths of a worktree. Where there is one already, that
    /// stays. `None`: nothing was made.
    pub fn keep(&self, recipe: &Recipe, key: &str) -> Result<Option<Copied>, FolderError> {
        let dir = self.entry(&recipe.repo, key);
        if self.max_bytes == 0 || self.has(recipe, key) {
            return Ok(None);
        }
        let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(&self.scratch)?;
        let scratch = tempfile::Builder::new().prefix("cache-").tempdir_in(&self.scratch)?;
        make(&scratch.path().join(TREE))?;
        let (from, to) = (recipe.open()?, beneath::folder(&scratch.path().join(TREE))?);
        let private = self.private(recipe)?;
        let worktree = recipe.source.worktree();
        let mut copy = FolderCopy::new(self.max_bytes, private).refusing(&worktree);
        let made = (|| {
            for path in recipe.roots() {
                match copy.copy(from.as_fd(), to.as_fd(), path) {
                    Err(FolderError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                        let why = format!("the setup did not make {}", path.display());
                        return Err(FolderError::Refused(why));
                    }
                    copied => copied?,
                }
            }
            // Before the rename, so that not even a power failure leaves a file without content.
            rustix::fs::syncfs(File::open(scratch.path())?).map_err(io::Error::from)?;
            let record = Record { command: recipe.command.clone(), copied: copy.done };
            Ok(records::write_durably(scratch.path(), ENTRY, &record)?)
        })();
        let scratch = scratch.keep();
        if let Err(error) = made {
            let _ = remove(&scratch);
            return Err(error);
        }
        failpoint::hit("cache", "made");
        let _alone = IN_USE.blocking_write();
        make(&self.dir.join(&recipe.repo))?;
        if let Err(error) = fs::rename(&scratch, &dir) {
            let _ = remove(&scratch);
            // Another attempt was faster.
            return if self.has(recipe, key) { Ok(None) } else { Err(error.into()) };
        }
        self.shrink()?;
        Ok(Some(copy.done))
    }

    /// All entries, the one that was used longest ago first.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for repo in if_there(fs::read_dir(&self.dir))?.into_iter().flatten() {
            let repo = repo?;
            for entry in if_there(fs::read_dir(repo.path()))?.into_iter().flatten() {
                let path = entry?.path();
                // A file that is no entry, or an entry of another version.
                let Ok(Some(record)) = records::read::<Record>(&path, ENTRY) else { continue };
                let used = fs::metadata(path.join(ENTRY))?.modified()?;
                let name = path.strip_prefix(&self.dir).unwrap_or(&path).display().to_string();
                let (bytes, cost) = (record.copied.bytes, record.copied.cost());
                entries.push(Entry { name, path, bytes, cost, used });
            }
        }
        entries.sort_by(|one, other| (one.used, &one.path).cmp(&(other.used, &other.path)));
        Ok(entries)
    }

    /// Removes the entries beyond the limit. The caller holds [`IN_USE`] alone.
    fn shrink(&self) -> io::Result<()> {
        let entries = self.entries()?;
        let mut cost: u64 = entries.iter().map(|entry| entry.cost).sum();
        for entry in entries {
            if cost <= self.max_bytes {
                break;
            }
            self.drop_entry(&entry)?;
            cost -= entry.cost;
        }
        Ok(())
    }

    /// Removes an entry: it is gone with the rename.
    pub fn remove(&self, entry: &Entry) -> io::Result<()> {
        let _alone = IN_USE.blocking_write();
        self.drop_entry(entry)
    }

    fn drop_entry(&self, entry: &Entry) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.scratch)?;
        let away = self.scratch.join(format!("cache-{}", uuid::Uuid::now_v7()));
        fs::rename(&entry.path, &away)?;
        remove(&away)
    }
}

#[cfg(test)]
mod tests;

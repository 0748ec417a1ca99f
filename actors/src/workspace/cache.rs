//! What setups have made, for later worktrees with the same key. An entry appears whole, by a
//! rename, and its tree is never changed; the entries that were used longest ago go first when there
//! is no room. An agent may start before the disk has an entry: until then the entry counts for this
//! boot alone, after which a power failure may have left files of it without content. Blocking.
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
use super::source::Source;
use crate::blocking::if_there;
use crate::failpoint;
use crate::process::{proc, records};
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
    /// The setup runs after a restoration too, and mends what holds a path that texts do not.
    pub runs_again: bool,
    /// The worktree that it is about.
    pub source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    command: String,
    /// The worktree that it was made in, by its names: its texts may hold them. Empty: none does.
    #[serde(default)]
    made_in: Vec<PathBuf>,
    /// The only boot in which it counts; `None`: the disk has all of it.
    #[serde(default)]
    boot: Option<String>,
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
        let mut what = json!({"command": self.command, "paths": self.paths, "files": files,
            "platform": platform});
        if self.runs_again {
            what["after_restore"] = json!("run");
        }
        Ok(hex(&Sha256::digest(what.to_string())))
    }

    /// The names of the worktree that a program in it may write down.
    fn places(&self) -> Vec<PathBuf> {
        let worktree = self.source.worktree();
        let real = worktree.canonicalize().ok().filter(|real| *real != worktree);
        std::iter::once(worktree).chain(real).collect()
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
    /// Where an entry stands, if there is one.
    pub fn entry(&self, repo: &str, key: &str) -> PathBuf {
        self.dir.join(repo).join(key)
    }

    pub fn has(&self, recipe: &Recipe, key: &str) -> bool {
        self.max_bytes > 0 && self.record(recipe, key).is_some()
    }

    /// That of an entry that counts.
    fn record(&self, recipe: &Recipe, key: &str) -> Option<Record> {
        let record: Record = records::read(&self.entry(&recipe.repo, key), ENTRY).ok()??;
        let is_whole =
            record.boot.as_ref().is_none_or(|of| proc::boot_id().is_ok_and(|now| now == *of));
        is_whole.then_some(record)
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
        let Some(record) = self.record(recipe, key) else { return Ok(None) };
        let dir = self.entry(&recipe.repo, key);
        let Some(marker) = if_there(File::options().append(true).open(dir.join(ENTRY)))? else {
            return Ok(None);
        };
        marker.set_modified(SystemTime::now())?;
        let (from, to) = (beneath::folder(&dir.join(TREE))?, recipe.open()?);
        let here = recipe.places();
        let here = here.iter().chain(std::iter::repeat(&here[here.len() - 1])).cloned();
        let mut copy = FolderCopy::new(u64::MAX, self.private(recipe)?)
            .moving(record.made_in.into_iter().zip(here).collect());
        for path in recipe.roots() {
            copy.copy(from.as_fd(), to.as_fd(), path)?;
            failpoint::hit("cache", "copied");
        }
        Ok(Some(copy.done))
    }

    /// Makes an entry of what stands at the paths of a worktree. Where there is one already, that
    /// stays. `None`: nothing was made. [`Self::save`] is to follow.
    pub fn keep(&self, recipe: &Recipe, key: &str) -> Result<Option<Copied>, FolderError> {
        let dir = self.entry(&recipe.repo, key);
        if self.max_bytes == 0 || self.has(recipe, key) {
            return Ok(None);
        }
        let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(&self.scratch)?;
        let scratch = tempfile::Builder::new().prefix("cache-").tempdir_in(&self.scratch)?;
        make(&scratch.path().join(TREE))?;
        let made = self.copy_from(recipe, &scratch.path().join(TREE)).and_then(|copied| {
            let made_in = if recipe.runs_again { recipe.places() } else { Vec::new() };
            let boot = Some(proc::boot_id()?);
            let record = Record { command: recipe.command.clone(), made_in, boot, copied };
            fs::write(
                scratch.path().join(ENTRY),
                serde_json::to_vec(&record).map_err(io::Error::from)?,
            )?;
            Ok(copied)
        });
        let scratch = scratch.keep();
        let copied = made.inspect_err(|_| drop(remove(&scratch)))?;
        failpoint::hit("cache", "made");
        let _alone = IN_USE.blocking_write();
        make(&self.dir.join(&recipe.repo))?;
        if self.has(recipe, key) {
            let _ = remove(&scratch);
            return Ok(None);
        }
        if dir.exists() {
            // It is of an earlier boot.
            self.drop_entry(&dir)?;
        }
        fs::rename(&scratch, &dir).inspect_err(|_| drop(remove(&scratch)))?;
        self.shrink()?;
        Ok(Some(copied))
    }

    /// Copies what stands at the paths of a worktree into a folder.
    fn copy_from(&self, recipe: &Recipe, tree: &Path) -> Result<Copied, FolderError> {
        let (from, to) = (recipe.open()?, beneath::folder(tree)?);
        let copy = FolderCopy::new(self.max_bytes, self.private(recipe)?);
        let places = recipe.places();
        let mut copy = if recipe.runs_again {
            copy.moving(places.into_iter().map(|place| (place.clone(), place)).collect())
        } else {
            copy.refusing(places)
        };
        for path in recipe.roots() {
            match copy.copy(from.as_fd(), to.as_fd(), path) {
                Err(FolderError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                    let why = format!("the setup did not make {}", path.display());
                    return Err(FolderError::Refused(why));
                }
                copied => copied?,
            }
        }
        Ok(copy.done)
    }

    /// Waits until the disk has an entry, and has it count from then on in later boots too.
    pub fn save(&self, recipe: &Recipe, key: &str) -> io::Result<()> {
        let dir = self.entry(&recipe.repo, key);
        let Some(file) = if_there(File::open(&dir))? else { return Ok(()) };
        rustix::fs::syncfs(file).map_err(io::Error::from)?;
        let _kept = IN_USE.blocking_read();
        match self.record(recipe, key).filter(|record| record.boot.is_some()) {
            Some(record) => records::write_durably(&dir, ENTRY, &Record { boot: None, ..record }),
            None => Ok(()),
        }
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
            self.drop_entry(&entry.path)?;
            cost -= entry.cost;
        }
        Ok(())
    }

    /// Removes an entry: it is gone with the rename.
    pub fn remove(&self, entry: &Entry) -> io::Result<()> {
        let _alone = IN_USE.blocking_write();
        self.drop_entry(&entry.path)
    }

    fn drop_entry(&self, entry: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.scratch)?;
        let away = self.scratch.join(format!("cache-{}", uuid::Uuid::now_v7()));
        fs::rename(entry, &away)?;
        remove(&away)
    }
}

#[cfg(test)]
mod tests;

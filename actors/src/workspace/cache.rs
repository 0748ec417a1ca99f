//! Keeps what setups have made, for later worktrees with the same key. An entry appears complete, by a
//! rename, and its tree is never changed. When there is no room, the entries that were used longest ago go
//! first. Everything here blocks.
//!
//! ```text
//! cache/<repository id>/<key>/
//!   entry.json       what the entry is; its modification time is that of the entry's last use
//!   tree/<path>      one for each path that the settings declare
//!
//!   setup ran ─keep─▶ counts in this boot alone ─save─▶ counts always ─shrink, remove─▶ gone
//!                          └─ another boot: replaced by the next keep
//! ```
//!
//! Why there are two steps: an agent need not wait until the disk has an entry. Until [`Cache::save`] has
//! written it out, a power failure may leave its files without content, so an unsaved entry does not count
//! after a reboot.

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

/// The record of an entry, a [`Record`] as JSON.
const ENTRY: &str = "entry.json";
const TREE: &str = "tree";
/// Bytes of the longest file that may be part of a key; a longer one is refused.
const KEY_FILE_MAX: u64 = 64 << 20;
/// Held shared while an entry is read, and exclusively while one is added or removed: no entry goes while it
/// is copied.
static IN_USE: RwLock<()> = RwLock::const_new(());

/// The entries of one home.
#[derive(Clone, Debug)]
pub struct Cache {
    pub dir: PathBuf,
    /// For entries that are being made or removed; on the same file system, so that a rename is enough.
    /// It is emptied when a daemon starts.
    pub scratch: PathBuf,
    /// All entries together, by [`Copied::cost`]. 0: nothing is kept, and nothing is taken from the
    /// cache.
    pub max_bytes: u64,
}

/// A setup in one worktree: what it depends on and what it makes.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The repository's id: the name of its folder in the cache.
    pub repo: String,
    pub command: String,
    /// Files of the worktree whose content is part of the key.
    pub key_files: Vec<String>,
    /// What the setup makes, by paths in the worktree.
    pub paths: Vec<String>,
    /// The setup runs in a worktree that has got an entry, too: what holds the path of the worktree is
    /// copied, and the setup repairs what a replacement of the path in texts does not.
    pub runs_again: bool,
    /// The worktree in which the setup runs.
    pub source: Source,
}

/// What `entry.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    command: String,
    /// The names of the worktree that it was made in: texts in it may hold them. Empty: no text does.
    #[serde(default)]
    made_in: Vec<PathBuf>,
    /// The only boot in which it counts; `None`: the disk has all of it, and it counts always.
    #[serde(default)]
    boot: Option<String>,
    #[serde(flatten)]
    copied: Copied,
}

/// An entry, as people are shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `<repository id>/<key>`.
    pub name: String,
    pub path: PathBuf,
    /// Of its files' content.
    pub bytes: u64,
    cost: u64,
    /// When it was last made or copied.
    pub used: SystemTime,
}

impl Recipe {
    /// The open worktree; no link leads to it.
    fn open(&self) -> io::Result<OwnedFd> {
        let root = beneath::folder(&self.source.worktrees)?;
        folder_copy::folder(root.as_fd(), &Path::new(&self.source.folder).join(&self.source.name))
    }

    /// The key: SHA-256, in hexadecimal digits, of the command, the declared paths, the platform, and the
    /// content of the key files. A missing file is part of the key as "missing", so the key changes when
    /// the file appears.
    ///
    /// # Errors
    /// A key file is a link, no regular file, or too long.
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

    /// The paths of the worktree that a program in it may write down: as configured, and without links.
    fn places(&self) -> Vec<PathBuf> {
        let worktree = self.source.worktree();
        let real = worktree.canonicalize().ok().filter(|real| *real != worktree);
        std::iter::once(worktree).chain(real).collect()
    }

    /// The declared paths, without those that lie in another one, sorted.
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

/// The hash of a file of the worktree; `None`: there is no such file.
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

/// Whether nothing is at any of the recipe's paths yet, so that an entry can be copied there.
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

/// Removes what is at the recipe's paths: the beginning of a copy that a daemon's death cut off.
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
    /// The folder of the entry with this key, whether or not there is one.
    pub fn entry(&self, repo: &str, key: &str) -> PathBuf {
        self.dir.join(repo).join(key)
    }

    /// Whether there is an entry that counts now. It may be gone by the time of [`Self::take`].
    pub fn has(&self, recipe: &Recipe, key: &str) -> bool {
        self.record(recipe, key).is_some()
    }

    /// The record of an entry that counts: it was saved, or made in this boot. With the limit 0 none
    /// counts.
    fn record(&self, recipe: &Recipe, key: &str) -> Option<Record> {
        if self.max_bytes == 0 {
            return None;
        }
        let record: Record = records::read(&self.entry(&recipe.repo, key), ENTRY).ok()??;
        let is_whole =
            record.boot.as_ref().is_none_or(|of| proc::boot_id().is_ok_and(|now| now == *of));
        is_whole.then_some(record)
    }

    /// The folders that no link of an entry may lead into: other entries, other worktrees, and the
    /// person's repository.
    fn private(&self, recipe: &Recipe) -> io::Result<Vec<PathBuf>> {
        let folders = [&self.dir, &recipe.source.worktrees, &recipe.source.repo];
        let real = folders.into_iter().map(|folder| if_there(folder.canonicalize()));
        real.filter_map(Result::transpose).collect()
    }

    /// Copies an entry into a worktree that has nothing at the recipe's paths, and notes the use.
    /// `Ok(None)`: there is no entry.
    ///
    /// # Errors
    /// The copy fails halfway: call [`clear`] before anything else.
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

    /// Makes an entry of what is at the recipe's paths in the worktree, and removes old entries
    /// beyond the limit. `Ok(None)`: nothing was made, because there is such an entry or nothing is kept.
    /// [`Self::save`] must follow.
    ///
    /// # Errors
    /// [`FolderError::Refused`] with a sentence: the setup did not make a path, the content can't move to
    /// another worktree, or it is larger than the limit.
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
            // It does not count: it was made in an earlier boot and never saved, or its record is damaged.
            self.drop_entry(&dir)?;
        }
        fs::rename(&scratch, &dir).inspect_err(|_| drop(remove(&scratch)))?;
        // The entry is there all the same, and the next one is made after another try.
        if let Err(error) = self.shrink() {
            tracing::warn!(path = %self.dir.display(), %error, "old entries of the cache can't be removed");
        }
        Ok(Some(copied))
    }

    /// Copies what is at the recipe's paths into a folder. If the setup does not run again, a file that
    /// holds the path of the worktree refuses the copy.
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

    /// Waits until the disk has the entry (syncfs(2), which may take seconds), and makes it count in
    /// later boots too. A missing entry is no error.
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

    /// All entries, the one that was used longest ago first. Entries of this boot count here, too.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for repo in if_there(fs::read_dir(&self.dir))?.into_iter().flatten() {
            let repo = repo?;
            for entry in if_there(fs::read_dir(repo.path()))?.into_iter().flatten() {
                let path = entry?.path();
                // Something that is no entry, or an entry that another version of Provost wrote.
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

    /// Removes the entries beyond the limit, the longest unused first. The caller holds [`IN_USE`]
    /// exclusively.
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

    /// Removes an entry: with the rename it is gone for all others, however long the removal of its files
    /// takes.
    pub fn remove(&self, entry: &Entry) -> io::Result<()> {
        let _alone = IN_USE.blocking_write();
        self.drop_entry(&entry.path)
    }

    /// Renames the entry away, then removes its files. The caller holds [`IN_USE`] exclusively.
    fn drop_entry(&self, entry: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.scratch)?;
        let away = self.scratch.join(format!("cache-{}", uuid::Uuid::now_v7()));
        fs::rename(entry, &away)?;
        remove(&away)
    }
}

#[cfg(test)]
mod tests;

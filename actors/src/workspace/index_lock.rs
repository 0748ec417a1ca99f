//! The lock of an index, taken as git takes it (gitrepository-layout(5)), with a mark of the
//! caller's in it: a daemon recognizes the lock that a killed one left, and continues. The lock
//! also says whether files have begun to change.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::regular;
use crate::blocking::{blocking, if_there};

const LOCK: &str = "index.lock";
/// The next text of the lock, until it is whole.
const NEXT: &str = "provost.lock";
/// The next index, until it is whole.
const COPY: &str = "provost.index";
/// Follows the mark once files may have changed.
const BEGUN: &str = "\nbegun";
const TEXT_MAX: u64 = 1024;

/// A held lock. It stays if it is dropped, until a call with the same mark takes it again.
pub struct IndexLock {
    /// The folder that git keeps for the worktree.
    admin: PathBuf,
    mark: String,
    /// Files may have changed under it.
    pub has_begun: bool,
}

impl IndexLock {
    /// Takes the lock; `None`: another program has it.
    pub async fn take(admin: &Path, mark: &str) -> io::Result<Option<Self>> {
        let (folder, text) = (admin.to_owned(), mark.to_owned());
        let has_begun = blocking(move || {
            let next = write(&folder, &text)?;
            // Whole at once: a lock without a mark would be another program's.
            let linked = fs::hard_link(&next, folder.join(LOCK));
            fs::remove_file(next)?;
            match linked {
                Ok(()) => Ok(Some(false)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => held(&folder, &text),
                Err(error) => Err(error),
            }
        });
        let taken = |has_begun| Self { admin: admin.to_owned(), mark: mark.to_owned(), has_begun };
        Ok(has_begun.await?.map(taken))
    }

    /// Whether a call with this mark has the lock.
    pub async fn is_held(admin: &Path, mark: &str) -> io::Result<bool> {
        let (admin, mark) = (admin.to_owned(), mark.to_owned());
        blocking(move || held(&admin, &mark)).await.map(|held| held.is_some())
    }

    /// Has the lock say that files change from now on.
    pub async fn begin(&mut self) -> io::Result<()> {
        let (admin, text) = (self.admin.clone(), self.mark.clone() + BEGUN);
        blocking(move || fs::rename(write(&admin, &text)?, admin.join(LOCK))).await?;
        self.has_begun = true;
        Ok(())
    }

    /// Copies the next index, with its time, see [`regular::copy`], to where it takes only a
    /// rename to install it.
    pub async fn prepare(&self, index: &Path) -> io::Result<()> {
        let (from, to) = (index.to_owned(), self.admin.join(COPY));
        blocking(move || {
            regular::copy(&from, &to)?;
            File::open(&to)?.sync_all()
        })
        .await
    }

    /// Puts the prepared index in its place, and gives up the lock.
    pub async fn install(self) -> io::Result<()> {
        let (copy, index) = (self.admin.join(COPY), self.admin.join("index"));
        blocking(move || fs::rename(copy, index)).await?;
        self.release().await
    }

    /// Gives up the lock, and leaves the index as it is.
    pub async fn release(self) -> io::Result<()> {
        Self::give_up(&self.admin).await
    }

    /// Gives up the lock of a worktree, which the caller has.
    pub async fn give_up(admin: &Path) -> io::Result<()> {
        let admin = admin.to_owned();
        blocking(move || {
            if_there(fs::remove_file(admin.join(COPY)))?;
            if_there(fs::remove_file(admin.join(LOCK))).map(drop)
        })
        .await
    }
}

/// Whether files have begun to change under the lock; `None`: it isn't that of the mark.
fn held(admin: &Path, mark: &str) -> io::Result<Option<bool>> {
    let lock = admin.join(LOCK);
    let Some(found) = if_there(fs::symlink_metadata(&lock))? else { return Ok(None) };
    if !found.is_file() {
        return Ok(None);
    }
    // git writes its next index there.
    let text = if_there(regular::read(&lock, TEXT_MAX))?.unwrap_or_default();
    Ok(match text.strip_prefix(mark.as_bytes()) {
        Some(b"") => Some(false),
        Some(begun) if begun == BEGUN.as_bytes() => Some(true),
        _ => None,
    })
}

fn write(admin: &Path, text: &str) -> io::Result<PathBuf> {
    let next = admin.join(NEXT);
    if_there(fs::remove_file(&next))?;
    let mut file = File::options().write(true).create_new(true).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(next)
}

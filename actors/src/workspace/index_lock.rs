//! The lock of an index, taken as git takes it (gitrepository-layout(5)), with a mark of the
//! caller's in it: a daemon recognizes the lock that a killed one left, and continues.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::regular;
use crate::blocking::{blocking, if_there};

const LOCK: &str = "index.lock";
/// The changed copy of the index, which becomes the index.
const COPY: &str = "provost.index";

/// A held lock. It stays if it is dropped, until a call with the same mark takes it again.
pub struct IndexLock {
    /// The folder that git keeps for the worktree.
    admin: PathBuf,
    /// A daemon that was killed had it.
    pub is_continued: bool,
}

impl IndexLock {
    /// Takes the lock; `None`: another program has it.
    pub async fn take(admin: &Path, mark: &str) -> io::Result<Option<Self>> {
        let (lock, mark) = (admin.join(LOCK), mark.to_owned());
        let is_continued =
            blocking(move || match File::options().write(true).create_new(true).open(&lock) {
                Ok(mut file) => {
                    file.write_all(mark.as_bytes())?;
                    file.sync_all()?;
                    Ok(Some(false))
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Ok((regular::text(&lock)? == mark).then_some(true))
                }
                Err(error) => Err(error),
            });
        let taken = |is_continued| Self { admin: admin.to_owned(), is_continued };
        Ok(is_continued.await?.map(taken))
    }

    /// Where the changed copy has to be.
    pub fn copy(&self) -> PathBuf {
        self.admin.join(COPY)
    }

    /// Makes the copy from an index, with its time; see [`regular::copy`].
    pub async fn copy_from(&self, index: &Path) -> io::Result<()> {
        let (from, to) = (index.to_owned(), self.copy());
        blocking(move || regular::copy(&from, &to)).await
    }

    pub fn index(&self) -> PathBuf {
        self.admin.join("index")
    }

    /// Puts the copy in the place of the index, and gives up the lock.
    pub async fn install(self) -> io::Result<()> {
        let (copy, index) = (self.copy(), self.index());
        blocking(move || {
            File::open(&copy)?.sync_all()?;
            fs::rename(&copy, &index)
        })
        .await?;
        self.release().await
    }

    /// Gives up the lock and the copy.
    pub async fn release(self) -> io::Result<()> {
        let (copy, lock) = (self.copy(), self.admin.join(LOCK));
        blocking(move || {
            if_there(fs::remove_file(copy))?;
            if_there(fs::remove_file(lock)).map(drop)
        })
        .await
    }
}

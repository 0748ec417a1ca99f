//! The lock of an index, taken as git takes it (gitrepository-layout(5)), with a mark of the
//! caller's in it: a daemon recognizes the lock that a killed one left, and continues. The lock
//! also says whether files have begun to change.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tokio::time::{Duration, Instant, sleep};

use super::regular;
use crate::blocking::{blocking, if_there};

pub const LOCK: &str = "index.lock";
/// Begins the names of the next text of the lock, until it is whole. Each try has a name of its own: daemons of
/// several homes and hosts may have one checkout, and two of them would take a fixed name for their own.
const NEXT: &str = "provost.lock.";
/// Begins the name of the next index, until it is whole; the mark follows.
const COPY: &str = "provost.index.";
/// Follows the mark once files may have changed.
const BEGUN: &str = "\nbegun";
const TEXT_MAX: u64 = 1024;
/// How long another program may have the lock before it is in the way: editors take it for moments all
/// day. And the time between two looks.
pub const IN_TIME: Duration = Duration::from_secs(5);
pub const PAUSE: Duration = Duration::from_millis(50);

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
            // Whole at once: a lock without a mark would be another program's.
            match fs::hard_link(write(&folder, &text)?, folder.join(LOCK)) {
                Ok(()) => Ok(Some(false)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => held(&folder, &text),
                Err(error) => Err(error),
            }
        });
        let taken = |has_begun| Self { admin: admin.to_owned(), mark: mark.to_owned(), has_begun };
        Ok(has_begun.await?.map(taken))
    }

    /// Takes the lock once another program has given it up; `None`: that program still has it when the
    /// time is over, which is [`IN_TIME`] mostly.
    pub async fn take_within(admin: &Path, mark: &str, time: Duration) -> io::Result<Option<Self>> {
        let until = Instant::now() + time;
        loop {
            let taken = Self::take(admin, mark).await?;
            if taken.is_some() || Instant::now() >= until {
                return Ok(taken);
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether a call with this mark has the lock.
    pub async fn is_held(admin: &Path, mark: &str) -> io::Result<bool> {
        let (admin, mark) = (admin.to_owned(), mark.to_owned());
        blocking(move || held(&admin, &mark)).await.map(|held| held.is_some())
    }

    /// Has the lock say that files change from now on.
    pub async fn begin(&mut self) -> io::Result<()> {
        let (admin, text) = (self.admin.clone(), self.mark.clone() + BEGUN);
        blocking(move || Ok::<_, io::Error>(write(&admin, &text)?.persist(admin.join(LOCK))?))
            .await?;
        self.has_begun = true;
        Ok(())
    }

    /// Copies the next index, with its time, see [`regular::copy`], to where it takes only a
    /// rename to install it.
    pub async fn prepare(&self, index: &Path) -> io::Result<()> {
        let (from, to) = (index.to_owned(), copy(&self.admin, &self.mark));
        blocking(move || {
            regular::copy(&from, &to)?;
            File::open(&to)?.sync_all()
        })
        .await
    }

    /// Puts the prepared index in its place, and gives up the lock.
    pub async fn install(self) -> io::Result<()> {
        let (copy, index) = (copy(&self.admin, &self.mark), self.admin.join("index"));
        blocking(move || fs::rename(copy, index)).await?;
        self.release().await
    }

    /// Gives up the lock, and leaves the index as it is.
    pub async fn release(self) -> io::Result<()> {
        Self::give_up(&self.admin, &self.mark).await
    }

    /// Gives up the lock of a worktree, which a call with this mark has.
    pub async fn give_up(admin: &Path, mark: &str) -> io::Result<()> {
        let (admin, copy) = (admin.to_owned(), copy(admin, mark));
        blocking(move || {
            if_there(fs::remove_file(copy))?;
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

/// Where the next index of a call with this mark is.
fn copy(admin: &Path, mark: &str) -> PathBuf {
    let plain = mark.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    admin.join(format!("{COPY}{plain}"))
}

/// A file with the text, which goes unless it is put in the lock's place.
fn write(admin: &Path, text: &str) -> io::Result<NamedTempFile> {
    let mut next = NamedTempFile::with_prefix_in(NEXT, admin)?;
    next.write_all(text.as_bytes())?;
    next.as_file().sync_all()?;
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_of_two_daemons_that_have_a_checkout_holds_its_lock() {
        let admin = tempfile::tempdir().unwrap();
        let take = |mark: &'static str| {
            let admin = admin.path().to_owned();
            tokio::spawn(async move {
                let mut held = 0;
                while held < 200 {
                    let Some(mut lock) = IndexLock::take(&admin, mark).await.unwrap() else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    assert!(!lock.has_begun);
                    lock.begin().await.unwrap();
                    assert!(IndexLock::is_held(&admin, mark).await.unwrap());
                    lock.release().await.unwrap();
                    held += 1;
                }
            })
        };
        let (one, other) = (take("provost 1"), take("provost 2"));
        one.await.unwrap();
        other.await.unwrap();
        assert_eq!(fs::read_dir(admin.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_lock_that_is_held_for_a_moment_is_waited_for_and_one_that_stays_is_not() {
        let admin = tempfile::tempdir().unwrap();
        let lock = admin.path().join(LOCK);
        fs::write(&lock, "").unwrap();
        let take = IndexLock::take_within(admin.path(), "provost 1", Duration::ZERO);
        assert!(take.await.unwrap().is_none());
        let folder = admin.path().to_owned();
        let taking = tokio::spawn(async move {
            IndexLock::take_within(&folder, "provost 1", Duration::from_hours(1))
                .await
                .unwrap()
                .is_some()
        });
        tokio::task::yield_now().await;
        fs::remove_file(lock).unwrap();
        assert!(taking.await.unwrap());
    }
}

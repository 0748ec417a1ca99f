//! The lock of an index, taken as git takes it (gitrepository-layout(5)), so that no git changes the
//! index until it is released. The caller's mark is in it: a daemon recognizes the lock that a killed one
//! left, and continues.
//!
//! ```text
//!  free ─take─▶ "mark" ─begin─▶ "mark, begun" ─install or release─▶ free
//!                 └──────────release──────────────────────────────▶ free
//! ```
//!
//! A dropped value, or the daemon's death, leaves the lock as it is; `take` with the same mark continues.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tokio::time::{Duration, Instant, sleep};

use super::regular;
use crate::blocking::{blocking, if_there};

/// The name of the lock, in the folder that git keeps for the checkout.
pub const LOCK: &str = "index.lock";
/// Begins the names of files with the next text of the lock. Each try has a file of its own: daemons of
/// several homes and hosts may share a checkout, and two of them would mistake a file of a fixed name for
/// their own.
const NEXT: &str = "provost.lock.";
/// Begins the name of the next index while it is being written; the mark follows.
const COPY: &str = "provost.index.";
/// Follows the mark once files may have changed.
const BEGUN: &str = "\nbegun";
/// Bytes of a lock that are read; a lock of Provost's is shorter.
const TEXT_MAX: u64 = 1024;
/// How long another program may have the lock before it counts as in the way: editors take it for moments
/// all day.
pub const IN_TIME: Duration = Duration::from_secs(5);
/// The time between two looks at a lock that another program has.
pub const PAUSE: Duration = Duration::from_millis(50);

/// A held lock. Dropping it does not release it: a call with the same mark must take it again and end it.
pub struct IndexLock {
    /// The folder that git keeps for the worktree.
    admin: PathBuf,
    mark: String,
    /// Files may have changed under it, in this process or an earlier one.
    pub has_begun: bool,
}

impl IndexLock {
    /// Takes the lock, or takes over one with the same mark. `None`: another program has it.
    pub async fn take(admin: &Path, mark: &str) -> io::Result<Option<Self>> {
        let (folder, text) = (admin.to_owned(), mark.to_owned());
        let has_begun = blocking(move || {
            // The link makes the lock appear together with its mark. A lock without a mark would count as
            // another program's, and no daemon would release it.
            match fs::hard_link(write(&folder, &text)?, folder.join(LOCK)) {
                Ok(()) => Ok(Some(false)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => held(&folder, &text),
                Err(error) => Err(error),
            }
        });
        let taken = |has_begun| Self { admin: admin.to_owned(), mark: mark.to_owned(), has_begun };
        Ok(has_begun.await?.map(taken))
    }

    /// Takes the lock as soon as another program has released it. `None`: that program still has it when
    /// the time is over; callers mostly allow [`IN_TIME`].
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

    /// Whether the lock has this mark.
    pub async fn is_held(admin: &Path, mark: &str) -> io::Result<bool> {
        let (admin, mark) = (admin.to_owned(), mark.to_owned());
        blocking(move || held(&admin, &mark)).await.map(|held| held.is_some())
    }

    /// Writes into the lock that files change from now on. Call it before the first change.
    pub async fn begin(&mut self) -> io::Result<()> {
        let (admin, text) = (self.admin.clone(), self.mark.clone() + BEGUN);
        blocking(move || Ok::<_, io::Error>(write(&admin, &text)?.persist(admin.join(LOCK))?))
            .await?;
        self.has_begun = true;
        Ok(())
    }

    /// Copies the next index beside the real one and writes it out, so that [`Self::install`] only has to
    /// rename it. Its time is kept, see [`regular::copy`].
    pub async fn prepare(&self, index: &Path) -> io::Result<()> {
        let (from, to) = (index.to_owned(), copy(&self.admin, &self.mark));
        blocking(move || {
            regular::copy(&from, &to)?;
            File::open(&to)?.sync_all()
        })
        .await
    }

    /// Makes the prepared index the real one, and releases the lock. Readers see the old index or the new
    /// one.
    pub async fn install(self) -> io::Result<()> {
        let (copy, index) = (copy(&self.admin, &self.mark), self.admin.join("index"));
        blocking(move || fs::rename(copy, index)).await?;
        self.release().await
    }

    /// Releases the lock, and leaves the index as it is.
    pub async fn release(self) -> io::Result<()> {
        Self::give_up(&self.admin, &self.mark).await
    }

    /// Releases the lock in this folder. The caller knows that it has this mark.
    pub async fn give_up(admin: &Path, mark: &str) -> io::Result<()> {
        let (admin, copy) = (admin.to_owned(), copy(admin, mark));
        blocking(move || {
            if_there(fs::remove_file(copy))?;
            if_there(fs::remove_file(admin.join(LOCK))).map(drop)
        })
        .await
    }
}

/// Whether files have begun to change under the lock. `None`: there is no lock with this mark.
fn held(admin: &Path, mark: &str) -> io::Result<Option<bool>> {
    let lock = admin.join(LOCK);
    let Some(found) = if_there(fs::symlink_metadata(&lock))? else { return Ok(None) };
    if !found.is_file() {
        return Ok(None);
    }
    // A lock of git's is its next index, so the text may be anything.
    let text = if_there(regular::read(&lock, TEXT_MAX))?.unwrap_or_default();
    Ok(match text.strip_prefix(mark.as_bytes()) {
        Some(b"") => Some(false),
        Some(begun) if begun == BEGUN.as_bytes() => Some(true),
        _ => None,
    })
}

/// The path of the next index for this mark.
fn copy(admin: &Path, mark: &str) -> PathBuf {
    let plain = mark.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    admin.join(format!("{COPY}{plain}"))
}

/// A file with the text beside the lock. It is removed when dropped, unless it has become the lock.
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

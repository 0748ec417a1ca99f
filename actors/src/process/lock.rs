//! The lock of an execution process's folder: its holder supervises the process, or decides
//! that no shim does.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::attach::DEADLINE;

/// The file whose flock(2) a shim holds for life.
const LOCK: &str = "lock";

/// The pause between two looks at a folder whose shim neither answers nor has ended.
pub const AGAIN: Duration = Duration::from_millis(20);

/// The lock, unless a shim holds it.
pub fn try_lock(dir: &Path) -> io::Result<Option<File>> {
    let lock = File::options().write(true).create(true).truncate(false).open(dir.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The same for a caller that knows that no shim should hold it. Waits: a process that is
/// being spawned holds a copy of every open file, and so the lock, until its exec. Blocks for
/// [`DEADLINE`] at most.
#[expect(clippy::disallowed_methods, reason = "it runs where blocking is allowed")]
pub fn lock_soon(dir: &Path) -> io::Result<Option<File>> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let lock = try_lock(dir)?;
        if lock.is_some() || Instant::now() > deadline {
            return Ok(lock);
        }
        std::thread::sleep(AGAIN);
    }
}

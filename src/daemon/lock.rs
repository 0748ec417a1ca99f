//! The lock of a home: one daemon at a time. A daemon takes it before it opens anything else, so that a
//! second daemon ends without having touched the home.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_actors::process::proc::{self, Stat};

/// How long a lock may remain after its holder was killed: the threads of a killed process end one by
/// one, and a child has a copy of the lock between fork and exec.
const LINGERS: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock, held until this value is dropped or the process ends in any way (flock(2)). The file stays.
#[derive(Debug)]
pub struct HomeLock(#[expect(dead_code, reason = "held, not used")] File);

/// Why the lock can't be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "another daemon{} runs on this home (it holds {path})",
        pid.as_ref().map(|pid| format!(", pid {pid},")).unwrap_or_default()
    )]
    Held { path: PathBuf, pid: Option<String> },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl HomeLock {
    /// Takes the lock, and writes this process's pid into the file, for the error of a second daemon.
    /// Waits for a holder that is ending, but not for one that runs. Blocking.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let deadline = Instant::now() + LINGERS;
        loop {
            match Self::try_take(path) {
                // Without a pid, the holder has just taken the lock and not written it yet: its pid is
                // needed for the error.
                Err(LockError::Held { pid, .. })
                    if pid.as_deref().is_none_or(is_ending) && Instant::now() < deadline =>
                {
                    #[expect(clippy::disallowed_methods, reason = "between two tries")]
                    std::thread::sleep(PAUSE);
                }
                taken => return taken,
            }
        }
    }

    /// One try. If another process has the lock, the error has the pid that the file names, if it names
    /// one.
    fn try_take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let read = file.read_to_string(&mut pid).is_ok();
                let pid = Some(pid.trim().to_owned()).filter(|pid| read && !pid.is_empty());
                return Err(LockError::Held { path: path.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Only now: until the lock is ours, the file has the holder's pid.
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self(file))
    }
}

/// True if the process is dead or dying, even if some of its threads still run.
fn is_ending(pid: &str) -> bool {
    pid.parse().is_ok_and(|pid| {
        Stat::of(pid).is_none_or(|stat| stat.has_begun_to_die()) || proc::is_being_killed(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_learns_who_holds_the_lock_and_the_next_one_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = HomeLock::take(&path).unwrap();
        let refused = HomeLock::take(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
        drop(first);
        HomeLock::take(&path).unwrap();
    }
    #[test]
    fn a_lock_that_outlives_its_holder_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lingering = HomeLock::take(&path).unwrap();
        // Beyond the largest pid there can be (proc_sys_kernel(5)).
        std::fs::write(&path, "4194305\n").unwrap();
        std::thread::scope(|scope| {
            let next = scope.spawn(|| HomeLock::take(&path));
            drop(lingering);
            next.join().unwrap().unwrap();
        });
    }
}

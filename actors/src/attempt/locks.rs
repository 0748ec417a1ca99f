//! Locks that a killed git left in an attempt's worktree, on which every later git fails.
//! They are renamed, not deleted. Everything here blocks. `provost doctor` uses this too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::proc;
use crate::workspace::own::Own;

/// The locks that git takes for most of what it writes in a worktree (gitrepository-layout(5)).
const LOCKS: [&str; 2] = ["index.lock", "HEAD.lock"];

/// The locks that lie in git's folder of a worktree. A link or a folder of that name is none.
pub fn of(own: &Own) -> Vec<PathBuf> {
    let locks = LOCKS.map(|name| own.admin().join(name));
    let is_file = |lock: &PathBuf| fs::symlink_metadata(lock).is_ok_and(|found| found.is_file());
    locks.into_iter().filter(is_file).collect()
}

/// Whether no process works in the worktree or in git's folder for it, or has a file there open: then
/// nothing can hold the lock.
pub fn is_abandoned(lock: &Path, worktree: &Path) -> bool {
    let admin = lock.parent().unwrap_or(lock);
    proc::user_of(worktree).is_none() && proc::user_of(admin).is_none()
}

/// Renames a lock, unless a process may hold it. `false`: one may, and the lock stays.
///
/// # Errors
/// It can't be renamed.
pub fn set_aside(lock: &Path, worktree: &Path) -> io::Result<bool> {
    if !is_abandoned(lock, worktree) {
        return Ok(false);
    }
    let mut aside = lock.as_os_str().to_owned();
    aside.push(format!(".stale-{}", uuid::Uuid::now_v7()));
    fs::rename(lock, aside).map(|()| true)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test needs a real child")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_lock_is_set_aside_unless_it_may_be_held_or_is_no_file() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let (own, worktree) = (Own::of(&root, "tree"), root.join("attempt/tree"));
        let dir = own.admin();
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&worktree).unwrap();
        let lock = dir.join("index.lock");
        std::os::unix::fs::symlink("/dev/null", dir.join("HEAD.lock")).unwrap();
        assert_eq!(of(&own), Vec::<PathBuf>::new());
        let file = fs::File::create(&lock).unwrap();
        assert_eq!(of(&own), std::slice::from_ref(&lock));

        let mut git = Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
        let aside = set_aside(&lock, &worktree);
        git.kill().unwrap();
        git.wait().unwrap();
        assert!(!aside.unwrap(), "it is open");
        assert!(set_aside(&lock, &worktree).unwrap());
        assert_eq!(of(&own), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "renamed, not deleted");
    }
}

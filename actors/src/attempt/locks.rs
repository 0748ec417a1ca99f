//! Locks that a killed git left in an attempt's worktree, on which every later git fails.
//! They are renamed, not deleted. Everything here blocks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::proc;
use crate::workspace::{proof, regular};

/// Taken for most of what git writes in a worktree (gitrepository-layout(5)).
const LOCKS: [&str; 2] = ["index.lock", "HEAD.lock"];

/// The locks in the folder that git keeps for a worktree, `<worktrees>/<attempt>/<repo>`.
pub fn of(worktree: &Path) -> Vec<PathBuf> {
    let locks = admin(worktree).map(|admin| LOCKS.map(|name| admin.join(name)));
    let is_file = |lock: &PathBuf| fs::symlink_metadata(lock).is_ok_and(|found| found.is_file());
    locks.into_iter().flatten().filter(is_file).collect()
}

/// The folder that git keeps for a worktree. An agent can write the worktree and its link:
/// `None` unless the worktree is in its place, and git's own record leads back to it.
fn admin(worktree: &Path) -> Option<PathBuf> {
    let all = worktree.parent()?.parent()?;
    let expected = all.canonicalize().ok()?.join(worktree.strip_prefix(all).ok()?);
    if worktree.canonicalize().ok()? != expected {
        return None;
    }
    let link = regular::text(&worktree.join(".git")).ok()?;
    let admin = worktree.join(link.strip_prefix("gitdir: ")?.trim_end()).canonicalize().ok()?;
    proof::is_registration_of(&admin, worktree).then_some(admin)
}

/// Whether no process works in the worktree or with its git.
pub fn is_abandoned(lock: &Path, worktree: &Path) -> bool {
    let admin = lock.parent().unwrap_or(lock);
    proc::user_of(worktree).is_none() && proc::user_of(admin).is_none()
}

/// Renames a lock, unless a process may hold it.
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
    fn a_lock_is_set_aside_unless_it_may_be_held_or_is_not_gits_own() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let (dir, worktree) = (root.join("common/worktrees/tree"), root.join("attempt/tree"));
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&worktree).unwrap();
        let lock = dir.join("index.lock");
        let file = fs::File::create(&lock).unwrap();
        assert_eq!(of(&worktree), Vec::<PathBuf>::new());
        fs::write(worktree.join(".git"), "gitdir: ../../common/worktrees/tree\n").unwrap();
        assert_eq!(of(&worktree), Vec::<PathBuf>::new(), "git knows nothing of it");
        fs::write(dir.join("gitdir"), format!("{}/.git\n", worktree.display())).unwrap();
        assert_eq!(of(&worktree), std::slice::from_ref(&lock));

        let mut git = Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
        let aside = set_aside(&lock, &worktree);
        git.kill().unwrap();
        git.wait().unwrap();
        assert!(!aside.unwrap(), "it is open");
        assert!(set_aside(&lock, &worktree).unwrap());
        assert_eq!(of(&worktree), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "renamed, not deleted");
    }
}

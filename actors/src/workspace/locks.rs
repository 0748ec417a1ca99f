//! Locks that a git which was killed has left in an attempt's worktree: every later
//! git there would fail on them. Nothing is deleted: they get another name.
//! Everything here blocks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Taken for most of what git writes in a worktree (gitrepository-layout(5)).
const LOCKS: [&str; 2] = ["index.lock", "HEAD.lock"];

/// The locks that lie in the folder git keeps for a worktree.
pub fn of(worktree: &Path) -> Vec<PathBuf> {
    let link = fs::read_to_string(worktree.join(".git")).unwrap_or_default();
    let Some(dir) = link.trim_end().strip_prefix("gitdir: ").map(Path::new) else { return vec![] };
    LOCKS.map(|name| dir.join(name)).into_iter().filter(|lock| lock.is_file()).collect()
}

/// Gives a lock another name, unless a living process may hold it: one that has it
/// open or works in the worktree. `common` is the repository's folder that all its
/// worktrees share; the agent could have led the worktree's link out of it.
pub fn set_aside(lock: &Path, worktree: &Path, common: &Path) -> io::Result<bool> {
    let is_gits_own =
        lock.parent().and_then(Path::parent).is_some_and(|dir| dir == common.join("worktrees"));
    if !is_gits_own || is_held(lock, worktree) {
        return Ok(false);
    }
    let mut aside = lock.as_os_str().to_owned();
    aside.push(format!(".stale-{}", uuid::Uuid::now_v7()));
    fs::rename(lock, aside).map(|()| true)
}

fn is_held(lock: &Path, worktree: &Path) -> bool {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let leads_to = |link: PathBuf| fs::read_link(link).unwrap_or_default();
    entries("/proc".into()).any(|process| {
        leads_to(process.path().join("cwd")).starts_with(worktree)
            || entries(process.path().join("fd")).any(|fd| leads_to(fd.path()) == lock)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_set_aside_unless_it_may_be_held_or_is_not_gits_own() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let (common, worktree) = (root.join("common"), root.join("tree"));
        let dir = common.join("worktrees/tree");
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir(&worktree).unwrap();
        assert_eq!(of(&worktree), Vec::<PathBuf>::new());
        fs::write(worktree.join(".git"), format!("gitdir: {}\n", dir.display())).unwrap();
        let lock = dir.join("index.lock");
        let held = fs::File::create(&lock).unwrap();
        assert_eq!(of(&worktree), std::slice::from_ref(&lock));
        assert!(!set_aside(&lock, &worktree, &common).unwrap(), "it is open");
        drop(held);
        assert!(!set_aside(&lock, &worktree, &root.join("other")).unwrap(), "it is another's");
        assert!(set_aside(&lock, &worktree, &common).unwrap());
        assert_eq!(of(&worktree), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "renamed, not deleted");
    }
}

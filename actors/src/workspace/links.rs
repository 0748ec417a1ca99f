//! Which links a copy makes again, in a new worktree and in the cache of setups alike: those that stay in
//! the worktree, and those to programs and libraries of the system and of toolchains. Any other target
//! may be a place where no agent of the worktree may go.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::sandbox::places::around_toolchain;

/// Where the system's programs and libraries are.
const SYSTEM: [&str; 7] = ["/bin", "/lib", "/lib64", "/nix/store", "/opt", "/sbin", "/usr"];

/// Why a link is not made again: the rest of a sentence.
pub const LEADS_OUT: &str = "is a link that leads out of the worktree";

/// The rule, for one copy.
#[derive(Clone, Debug)]
pub struct LinkRule {
    /// Real folders that no link may lead into, such as other worktrees and the repository.
    pub private: Vec<PathBuf>,
}

impl LinkRule {
    /// Whether a link with this target is made again. `depth`: how many levels below the worktree its
    /// folder lies.
    pub fn allows(&self, target: &Path, depth: usize) -> bool {
        stays(target, depth) || self.is_of_system(target)
    }

    /// Whether a link leads to a program or library of the system, such as `/usr/bin/python3`, or of a
    /// toolchain. Both the target and the file that it finally leads to must be there, and in no private
    /// folder.
    fn is_of_system(&self, target: &Path) -> bool {
        let is_plain = !target.components().any(|part| part == Component::ParentDir);
        let Some(real) = target.canonicalize().ok().filter(|_| is_plain) else { return false };
        [target, &real].iter().all(|path| {
            (SYSTEM.iter().any(|folder| path.starts_with(folder))
                || around_toolchain(path).is_some())
                && !self.private.iter().any(|folder| path.starts_with(folder))
        })
    }
}

/// Whether a link in a folder `depth` levels down stays beneath the worktree. Every `..` must come before
/// all names: then no other link on the way can change where it leads.
fn stays(target: &Path, depth: usize) -> bool {
    let up = target.components().take_while(|part| *part == Component::ParentDir).count();
    let goes_down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !target.as_os_str().as_bytes().is_empty()
        && up <= depth
        && target.components().skip(up).all(goes_down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_judged_by_the_folders_that_they_lie_in() {
        for (target, depth) in [("a", 0), ("./a/b", 0), ("../a", 1), ("../../a", 2), ("..", 1)] {
            assert!(stays(Path::new(target), depth), "{target}");
        }
        for (target, depth) in [("..", 0), ("../../a", 1), ("/a", 9), ("a/../../b", 9), ("", 9)] {
            assert!(!stays(Path::new(target), depth), "{target}");
        }
    }
}

//! The box in which git reads an attempt's own repository. In it, git can read and write what the
//! attempt's agent can, read the objects that are borrowed, and reach nothing else of the person's. So a
//! file that the agent prepared can at most make git do what the agent could do itself.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::Own;
use crate::blocking::{blocking, if_there};
use crate::sandbox::places::{Person, of_machine};
use crate::sandbox::{self, Access, Level, Rule, Sandbox};
use crate::workspace::git::{Git, GitError};
use crate::workspace::{quote, regular};

/// Most folders of objects that are followed, each borrowing from the next.
const LENDERS_MAX: usize = 16;
/// Bytes of a list of borrowed folders that are read.
const ALTERNATES_MAX: u64 = 64 * 1024;

/// What git itself needs of the machine: the system, and the folders of its programs.
static MACHINE: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let search = std::env::var("PATH").ok();
    let mut rules = of_machine(&Person { search: search.as_deref(), ..Person::default() }, &[]);
    // The keeper is this program. Its file may have been replaced; this path leads to it all the same.
    rules.push(read(PathBuf::from("/proc/self/exe")));
    rules
});

/// The box, for the person's repository with the shared folder `common`. `None`: this machine can't hold
/// a box, so the agents here have none either.
pub async fn held(own: &Own, common: &Path, worktree: &Path) -> Result<Option<Sandbox>, GitError> {
    if sandbox::obstacle().is_some() {
        return Ok(None);
    }
    let (own, common, worktree) = (own.clone(), common.to_owned(), worktree.to_owned());
    let rules = blocking(move || {
        let mut rules = MACHINE.clone();
        rules.extend([own.common(), own.view()].map(read));
        rules.extend(lenders(&common).into_iter().map(read));
        let written = own.written().into_iter().chain([worktree]);
        rules.extend(written.filter(|path| path.is_dir()).map(write));
        Ok::<_, GitError>(rules)
    });
    let (level, abi, rules) = (Level::Workspace, sandbox::abi(), rules.await?);
    Ok(Some(Sandbox { level, abi, rules, ..Sandbox::default() }))
}

/// git of the attempt's own repository, in its box. It reads only the configuration in [`Own::view`],
/// which Provost wrote.
pub fn git(own: &Own, held: Option<&Sandbox>) -> Git {
    let admin = own.admin();
    let mut git = Git::standing_in(&admin, own.root()).held(held.cloned());
    git.command
        .env("GIT_DIR", &admin)
        .env("GIT_COMMON_DIR", own.view())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_OPTIONAL_LOCKS", "0");
    git
}

/// The folders of objects that a repository reads: its own, those that it borrows from, those that these
/// borrow from, and so on (gitrepository-layout(5), alternates), and the folder of Git LFS. Blocking.
pub fn lenders(common: &Path) -> Vec<PathBuf> {
    let mut all = vec![common.join("objects")];
    let mut at = 0;
    while at < all.len() && all.len() < LENDERS_MAX {
        let folder = all[at].clone();
        let list = regular::read(&folder.join("info/alternates"), ALTERNATES_MAX);
        for line in if_there(list).ok().flatten().unwrap_or_default().split(|byte| *byte == b'\n') {
            let path = match line {
                [] | [b'#', ..] => continue,
                [b'"', ..] => quote::read(&String::from_utf8_lossy(line)),
                line => line.to_vec(),
            };
            let path = folder.join(Path::new(std::ffi::OsStr::from_bytes(&path)));
            if let Ok(path) = fs::canonicalize(path)
                && !all.contains(&path)
            {
                all.push(path);
            }
        }
        at += 1;
    }
    all.push(common.join("lfs"));
    all
}

/// The right to read what lies at a path.
pub(super) fn read(path: PathBuf) -> Rule {
    Rule { path, access: Access::Read }
}

/// The right to read and write what lies at a path.
pub(super) fn write(path: PathBuf) -> Rule {
    Rule { path, access: Access::Write }
}

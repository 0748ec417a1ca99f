//! Which files are to be copied: git lists the matching files of the checkout, and says which of them it
//! ignores in the worktree.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Seek, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{CopyError, Copying};
use crate::blocking::blocking;
use crate::workspace::beneath;
use crate::workspace::git::Git;

/// Bytes of the longest list of files that is read: about a million files.
const LISTING_MAX: usize = 256 << 20;

/// The ignored files of the checkout that the patterns match, in git's order. git lists twice, by the
/// patterns and by its own rules, and the files in both lists count.
///
/// # Errors
/// [`CopyError::TooMany`]: a list is longer than [`LISTING_MAX`].
pub(super) async fn matching(
    what: &Copying,
    checkout: BorrowedFd<'_>,
    git_dir: &Path,
) -> Result<Vec<Vec<u8>>, CopyError> {
    let (scratch, lines) = (what.scratch.clone(), what.patterns.join("\n") + "\n");
    let file = blocking(move || {
        std::fs::create_dir_all(&scratch)?;
        let mut file = tempfile::Builder::new().prefix("patterns-").tempfile_in(&scratch)?;
        file.write_all(lines.as_bytes())?;
        Ok::<_, io::Error>(file)
    });
    let file = file.await?;
    let by_patterns = format!("--exclude-from={}", file.path().display());
    let list = async |which: &str| {
        let mut git = Git::standing_in(&beneath::proc_path(checkout), git_dir).patient();
        // `core.worktree` of a configuration would lead to another checkout.
        git.command
            .env("GIT_DIR", git_dir)
            .env("GIT_WORK_TREE", ".")
            .env("GIT_OPTIONAL_LOCKS", "0");
        let args = ["ls-files", "--others", "--ignored", which, "-z"];
        let output = git.output(&args, LISTING_MAX).await?;
        match output {
            output if output.is_cut => Err(CopyError::TooMany),
            output if !output.status.success() => Err(output.failure().into()),
            output => Ok(output.stdout),
        }
    };
    let (wanted, ignored) = tokio::try_join!(list(&by_patterns), list("--exclude-standard"))?;
    let ignored: HashSet<&[u8]> = ignored.split(|byte| *byte == 0).collect();
    let paths = wanted.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.filter(|path| ignored.contains(path)).map(<[u8]>::to_vec).collect())
}

/// Divides the paths into those that git ignores in the worktree too, and those that it does not: the
/// worktree's commit may have other rules than the checkout. A file that git would add there must not be
/// copied.
pub(super) async fn ignored_there(
    what: &Copying,
    git_dir: &Path,
    paths: Vec<Vec<u8>>,
) -> Result<(Vec<Vec<u8>>, Vec<Vec<u8>>), CopyError> {
    if paths.is_empty() {
        return Ok((paths, Vec::new()));
    }
    let (scratch, worktree) = (what.scratch.clone(), what.worktrees.join(&what.below));
    let place = worktree.clone();
    let asked = blocking(move || {
        let mut links = Links { worktree: &place, last: None };
        // git check-ignore fails at a path beyond a link. The copier skips such a path with a reason.
        let (beyond, asked): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|path| links.are_before(path));
        let mut file = tempfile::tempfile_in(scratch)?;
        file.write_all(&asked.join(&0))?;
        file.rewind()?;
        Ok::<_, io::Error>((file, asked, beyond))
    });
    let (stdin, asked, beyond) = asked.await?;
    let mut git = Git::standing_in(&worktree, git_dir).patient();
    git.command.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", ".").stdin(stdin);
    let output = git.output(&["check-ignore", "--no-index", "-z", "--stdin"], LISTING_MAX).await?;
    // git-check-ignore(1): 1 means that none is ignored.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(output.failure().into());
    }
    let ignored: HashSet<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    let (mut found, not_there): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|path| ignored.contains(&**path));
    found.extend(beyond);
    Ok((found, not_there))
}

/// Finds links on the way to paths beneath a worktree.
struct Links<'a> {
    worktree: &'a Path,
    /// The folder of the last path, and whether a link leads there: git lists the files of a folder one
    /// after the other.
    last: Option<(PathBuf, bool)>,
}

impl Links<'_> {
    /// Whether a link lies on the way to the folder of this path.
    fn are_before(&mut self, path: &[u8]) -> bool {
        let folder = Path::new(OsStr::from_bytes(path)).parent().unwrap_or(Path::new(""));
        match &self.last {
            Some((last, is_one)) if last == folder => *is_one,
            _ => {
                let is_one = self.is_in(folder);
                self.last = Some((folder.to_owned(), is_one));
                is_one
            }
        }
    }

    /// Whether the folder or one above it, in the worktree, is a link.
    fn is_in(&self, folder: &Path) -> bool {
        let mut at = self.worktree.to_owned();
        for part in folder.components() {
            at.push(part);
            match at.symlink_metadata() {
                Ok(found) if found.is_symlink() => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        false
    }
}

//! Reads copied files of credentials again, for the list of values that no log may show.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::fcntl::OFlag;

use super::folders::{Folders, regular};
use super::open_checkout;
use crate::workspace::beneath::{self, Links};

/// Bytes of the longest file of credentials that is read.
const CREDENTIALS_MAX: u64 = 64 * 1024;

/// The texts of files of credentials, by their paths, as they are in the main checkout now. A file that
/// can't be read, or is no UTF-8, is left out. Blocking.
pub fn credentials_of_checkout(repo: &Path, paths: &[String]) -> Vec<(String, String)> {
    read(open_checkout(repo), paths)
}

/// The same, as they are in a worktree now: the agent or the setup may have changed them.
pub fn credentials_of_worktree(
    (worktrees, below): (&Path, &Path),
    paths: &[String],
) -> Vec<(String, String)> {
    let worktree = || {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let root = beneath::folder(worktrees)?;
        Ok(beneath::open_beneath(root.as_fd(), below, flags, Links::Refuse)?)
    };
    read(worktree(), paths)
}

/// Reads the files beneath an open folder, each up to the limit.
fn read(root: io::Result<OwnedFd>, paths: &[String]) -> Vec<(String, String)> {
    let Ok(root) = root else { return Vec::new() };
    let mut folders = Folders::of_checkout(root.as_fd());
    let mut texts = Vec::new();
    for path in paths {
        let at = Path::new(path);
        let Some((folder, name)) = at.parent().zip(at.file_name()) else { continue };
        let Ok(Ok((file, _))) = folders.at(folder).map(|folder| regular(folder, name)) else {
            continue;
        };
        let mut text = String::new();
        if file.take(CREDENTIALS_MAX).read_to_string(&mut text).is_ok() {
            texts.push((path.clone(), text));
        }
    }
    texts
}

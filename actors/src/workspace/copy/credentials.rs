//! Reads copied files of credentials again, for the list of what no log may show.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use nix::fcntl::OFlag;

use super::{open_checkout, open_regular};
use crate::workspace::beneath::{self, Links};

/// Bytes of the longest file of credentials that is read.
const CREDENTIALS_MAX: u64 = 64 * 1024;

/// The texts of copied files of credentials, as they are in the checkout and in the worktree now.
/// What can't be read is left out: it can't be shown either. Blocking.
pub fn read_credentials(
    repo: &Path,
    (worktrees, below): (&Path, &Path),
    paths: &[String],
) -> Vec<(String, String)> {
    let worktree = || {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let root = beneath::folder(worktrees)?;
        beneath::open_beneath(root.as_fd(), below, flags, Links::Refuse)
    };
    let roots = [open_checkout(repo).ok(), worktree().ok()];
    let mut texts = Vec::new();
    for root in roots.iter().flatten() {
        for path in paths {
            let Ok(file) = open_regular(root.as_fd(), Path::new(path)) else { continue };
            let mut text = String::new();
            if file.take(CREDENTIALS_MAX).read_to_string(&mut text).is_ok() {
                texts.push((path.clone(), text));
            }
        }
    }
    texts
}

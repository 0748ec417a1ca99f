//! Shares the blocks of a file with a new one, where the file system can.

use std::fs::File;

use rustix::io::Errno;

/// Asks the file system until it says that it never can.
pub(super) struct Reflink {
    pub may_share: bool,
}

impl Reflink {
    pub fn new() -> Self {
        Self { may_share: true }
    }

    /// `false`: the new file is as empty as before.
    pub fn share(&mut self, source: &File, made: &File) -> bool {
        if !self.may_share {
            return false;
        }
        match rustix::fs::ioctl_ficlone(made, source) {
            Ok(()) => true,
            Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS | Errno::PERM) => {
                self.may_share = false;
                false
            }
            // This file alone.
            Err(_) => false,
        }
    }
}

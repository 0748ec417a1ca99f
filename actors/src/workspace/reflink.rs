//! Makes a file share its blocks with a new one (ioctl_ficlone(2)), where the file system can.

use std::fs::File;

use rustix::io::Errno;

/// Asks the file system for each file, until it says that it never can.
pub(super) struct Reflink {
    /// Whether the next file is tried. `false` once a call has failed for a reason that holds for all
    /// files.
    pub may_share: bool,
}

impl Reflink {
    /// Nothing is known of the file system yet.
    pub fn new() -> Self {
        Self { may_share: true }
    }

    /// Makes `made`, an empty file, share the content of `source`. `false`: it is still empty, and must
    /// be copied.
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
            // The failure concerns this file alone.
            Err(_) => false,
        }
    }
}

//! Bounds the log of a daemon in the background: a log over the limit becomes `daemon.log.1`
//! and replaces an earlier one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of a log at which a new one begins. The home keeps two logs.
pub const LIMIT: u64 = 16 * 1024 * 1024;

/// Begins a new log if the present one has `limit` bytes. Does nothing if standard error is
/// another file, which belongs to the parent process.
pub fn rotate(log: &Path, limit: u64) -> io::Result<()> {
    let ours = File::from(io::stderr().as_fd().try_clone_to_owned()?).metadata()?;
    let Ok(named) = fs::metadata(log) else { return Ok(()) };
    let is_ours = (ours.dev(), ours.ino()) == (named.dev(), named.ino());
    if !is_ours || named.len() < limit {
        return Ok(());
    }
    let mut earlier = log.as_os_str().to_owned();
    earlier.push(".1");
    fs::rename(log, &earlier)?;
    let begun = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    nix::unistd::dup2_stderr(begun)?;
    Ok(())
}

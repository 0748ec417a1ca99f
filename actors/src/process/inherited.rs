//! Descriptors that nobody meant to hand on.

use std::io;

use nix::errno::Errno;
use nix::libc;

/// Closes all descriptors but the standard three. A pipe of whoever started a
/// daemon would else stay open for the daemon's life, and its reader would wait
/// for an end that never comes. To be called before this process opens any.
pub fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: close_range(2) takes no pointers, and nothing in this process owns
    // a descriptor yet that it could close.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    Errno::result(closed)?;
    Ok(())
}

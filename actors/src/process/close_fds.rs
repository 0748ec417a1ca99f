//! Gives up what a process inherited from its parent and must not keep: descriptors, and
//! the right to dump core.

use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Keeps this process, and what it starts, from dumping core: its memory may hold secrets.
/// Returns the former soft limit, in bytes, for programs that get it back.
pub fn forbid_core_dumps() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_CORE).ok()?;
    setrlimit(Resource::RLIMIT_CORE, 0, hard).ok()?;
    Some(soft)
}

/// Closes all descriptors but the standard three: a reader of an inherited pipe would wait for
/// its end for the daemon's life. To be called before this process opens any.
pub fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: close_range(2) takes no pointers, and nothing in this process owns
    // a descriptor yet that it could close.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    Ok(Errno::result(closed).map(drop)?)
}

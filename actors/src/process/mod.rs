//! The only place that spawns processes: shims, and through them executors.
//!
//! ```text
//!  daemon                              shim                        executor
//!  ──────                              ────                        ────────
//!  Shims::spawn ── manifest.json ──▶  start ── started.json ──▶   exec
//!       │                               │  stdin ◀── messages        │
//!  Shim{control, events, lengths} ◀─sock┤  stdout, stderr ◀──────────┤
//!       │                               │      └─splice─▶ spool      ▼
//!       └─ PipeHandles: a copy of each  └─ exit.json ◀── wait(2) ── ends
//!          pipe's end, a handle on
//!          shim and leader
//! ```
//!
//! One execution process is one folder (`log::spool`), and the folder is the truth about it.
//! Its **leader** is the executor, its **tree** is all that the leader started. The next daemon
//! adopts a dead daemon's shims; `Shims::rescue` replaces a dead shim; when both died,
//! `Shims::sweep` kills what is left and records the end.
//!
//! - The code never trusts a pid alone: [`identity`] compares start times, and sends signals to pidfds.
//!   Linux 5.3 is the minimum. From Linux 6.15 on, a pidfd gives the exit status even if another process
//!   has reaped the child.
//! - Log bytes pass through pipes and files, never through a socket or a channel.
//! - No file holds a secret, and no environment but the executor's holds one.
//! - A process is finished when its exit record is on disk, not at the end of its output.
//!
//! Each execution process has one lock file (`records::try_lock`). A shim holds it for life. Without a shim,
//! whoever takes it (`Shims::adopt`, `Shims::sweep`, a rescue) alone decides about the folder.

use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

mod attach;
pub mod by_hand;
pub mod cgroup;
mod child_registry;
mod control;
mod handshake;
pub mod identity;
pub mod kill;
pub mod lease;
pub mod network;
pub mod place;
pub mod proc;
pub mod process_list;
pub mod records;
mod rescue;
mod roots;
pub mod shim;
mod shims;
pub mod sockets;
mod stale_processes;
pub mod tree;
pub mod watch;
pub mod wire;

pub use attach::AdoptError;
pub use control::{Control, ControlError, Shim, ShimEvent};
pub use nix::sys::signal::Signal;
pub use rescue::{LOST, Swept, become_subreaper};
pub use shims::{Adopted, NEVER_STARTED, Shims, SpawnError};
pub use tree::Marker;
pub use wire::Target;

/// Sets the name that ps(1) shows, at most 15 bytes, instead of "exe".
pub fn set_name(name: &std::ffi::CStr) {
    // Best effort: the name is only cosmetic.
    let _ = nix::sys::prctl::set_name(name);
}

/// Keeps this process and its children from dumping core, because its memory may hold secrets.
/// Returns the former soft limit in bytes: the shim restores it for the executor
/// (`SoftLimits::core_bytes`). `None`: the limit could not be read or set.
pub fn forbid_core_dumps() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_CORE).ok()?;
    setrlimit(Resource::RLIMIT_CORE, 0, hard).ok()?;
    Some(soft)
}

/// Limits malloc(3) to two heaps for all threads. Without the limit, glibc gives each thread of the blocking
/// pool a heap of its own, and the memory of an attempt is spread over all of them. Call this before the
/// process has threads. Does nothing with another C library.
pub fn share_heaps() {
    // SAFETY: mallopt(3) only sets a number of the allocator, and there is no other thread.
    #[cfg(target_env = "gnu")]
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}

/// Closes all descriptors but the standard three. Otherwise a process that reads from an inherited pipe would
/// see no end of file as long as the daemon lives. Call this before the process opens any descriptor.
pub fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: close_range(2) takes no pointers, and nothing in this process owns
    // a descriptor yet that it could close.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    Ok(Errno::result(closed).map(drop)?)
}

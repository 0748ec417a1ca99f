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
//! - A pid is never trusted alone: [`identity`] compares start times, and signals
//!   handles. Linux 5.3 is needed; from 6.15 on a status is known whoever reaped.
//! - Log bytes pass through pipes and files, never through a socket or a channel.
//! - A secret is never on disk, and in no environment but the executor's.
//! - A process is finished when its exit record is on disk, not at the end of its output.

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

/// Keeps this process, and what it starts, from dumping core: its memory may hold secrets.
/// Returns the former soft limit, in bytes, for programs that get it back.
pub fn forbid_core_dumps() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_CORE).ok()?;
    setrlimit(Resource::RLIMIT_CORE, 0, hard).ok()?;
    Some(soft)
}

/// Lets all threads allocate from two heaps. The C library would give each of the threads that do
/// blocking work a heap of its own, and what an attempt holds would be spread over all of them.
/// To be called before this process has threads.
pub fn share_heaps() {
    // SAFETY: mallopt(3) only sets a number of the allocator, and there is no other thread.
    #[cfg(target_env = "gnu")]
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
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

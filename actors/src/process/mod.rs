//! The only place that spawns processes: shims, and through them executors.
//!
//! ```text
//!  daemon                              shim                        executor
//!  ──────                              ────                        ────────
//!  Shims::spawn ── manifest.json ──▶  start ── started.json ──▶   exec
//!       │                               │  stdin ◀── messages        │
//!  Shim{control, events, lengths} ◀─sock┤  stdout, stderr ◀──────────┤
//!       │                               │      └─splice─▶ spool      ▼
//!       └─ Lifeline: a copy of each     └─ exit.json ◀── wait(2) ── ends
//!          pipe's end, a handle on
//!          shim and leader
//! ```
//!
//! With secrets a memfd is handed over at the spawn, and two lie between pipes
//! and spool, of which the lifeline has copies too.
//!
//! One execution process is one folder, and the folder is the truth about it;
//! `log::spool` tells what is in it. Its **leader** is the executor that the
//! manifest names, its **tree** is all that the leader started.
//!
//! Who may die, and what then:
//!
//! ```text
//!  dies           the leader goes on    its end is known   who goes on
//!  ────           ──────────────────    ────────────────   ───────────
//!  daemon         yes                   yes                the shim; the next daemon adopts it
//!  shim           yes, pipes whole      yes                a shim started by Shims::rescue
//!  both at once   until swept           no, and says so    Shims::sweep kills and records
//! ```
//!
//! What a folder says, as [`Shims::adopt`] reads it:
//!
//! ```text
//!              lock held                   lock free
//!              ─────────                   ─────────
//!  no record   Live: running               no started.json ▶ NeverStarted (closed for good)
//!                                          started.json    ▶ Lost
//!  exit.json   Live: leftovers of the      Ended
//!              tree, or ending
//! ```
//!
//! Invariants:
//! - A pid is never trusted alone: [`identity`] compares start times, [`pidfd`]
//!   signals handles. Linux 5.3 is needed; from 6.15 on a status is known even
//!   when another process reaped.
//! - Nobody here calls `waitpid(-1)` but a shim, whose children are all of its tree.
//! - Log bytes pass through pipes and files, never through a socket or a channel.
//! - No secret's value is on disk, and none in an environment but the executor's.
//! - A process is finished when its exit record is on disk. End of file is no
//!   end, and an end is no end of file: daemonized children write on.

mod attach;
pub mod cgroup;
mod close_fds;
mod control;
pub mod folder_users;
pub mod identity;
pub mod kill;
mod lock;
pub mod manifest;
mod paths;
pub mod pidfd;
pub mod place;
pub mod proc;
mod rescue;
mod roots;
mod secret_memfd;
pub mod shim;
mod shims;
pub mod tree;
pub mod usage;
pub mod watch;
pub mod wire;

pub use attach::AttachError;
pub use close_fds::{close_inherited, forbid_core_dumps};
pub use control::{Control, ControlError, Shim, ShimEvent};
pub use nix::sys::signal::Signal;
pub use rescue::{LOST, Swept, become_subreaper};
pub use shims::{AdoptError, Adopted, NEVER_STARTED, Shims, SpawnError};
pub use tree::Marker;

/// What ps(1) calls this process, at most 15 bytes: one that was started as
/// `/proc/self/exe` would be called "exe".
pub fn set_name(name: &std::ffi::CStr) {
    // Only cosmetic: a kernel that refuses is not argued with.
    let _ = nix::sys::prctl::set_name(name);
}

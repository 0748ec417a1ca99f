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
//! One execution process is one folder (`log::spool`), and the folder is the truth about it.
//! Its **leader** is the executor, its **tree** is all that the leader started.
//!
//! ```text
//!  dies           the leader goes on    its end is known   who goes on
//!  ────           ──────────────────    ────────────────   ───────────
//!  daemon         yes                   yes                the shim; the next daemon adopts it
//!  shim           yes, pipes whole      yes                a shim started by Shims::rescue
//!  both at once   until swept           no                 Shims::sweep kills and records
//! ```
//!
//! - A pid is never trusted alone: [`identity`] compares start times, [`pidfd`] signals
//!   handles. Linux 5.3 is needed; from 6.15 on a status is known whoever reaped.
//! - Log bytes pass through pipes and files, never through a socket or a channel.
//! - A secret is never on disk, and in no environment but the executor's.
//! - A process is finished when its exit record is on disk, not at the end of its output.

mod attach;
pub mod cgroup;
mod close_fds;
mod control;
pub mod folder_users;
pub mod identity;
pub mod kill;
mod lock;
pub mod manifest;
pub mod pidfd;
pub mod place;
pub mod proc;
mod rescue;
mod roots;
pub mod shim;
mod shims;
pub mod tree;
pub mod usage;
pub mod watch;
pub mod wire;

pub use attach::AdoptError;
pub use close_fds::{close_inherited, forbid_core_dumps};
pub use control::{Control, ControlError, Shim, ShimEvent};
pub use nix::sys::signal::Signal;
pub use rescue::{LOST, Swept, become_subreaper};
pub use shims::{Adopted, NEVER_STARTED, Shims, SpawnError};
pub use tree::Marker;

/// Sets the name that ps(1) shows, at most 15 bytes, instead of "exe".
pub fn set_name(name: &std::ffi::CStr) {
    // Best effort: the name is only cosmetic.
    let _ = nix::sys::prctl::set_name(name);
}

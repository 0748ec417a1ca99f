//! The shim: the small process between the daemon and one executor.
//!
//! It is the executor's parent, moves the output to the spool, records how the executor ended, and serves one
//! Unix socket. It does not need a daemon, and knows nothing of tasks or agents. It runs in the daemon's own
//! binary, entered before any runtime: one thread, one `poll` loop, and no memory that grows with the output.
//!
//! ```text
//!            exec fails: exit.json says why
//!   start ────────────────────────────────────▶ (ends)
//!     │ started.json, "ok" to the daemon
//!     ▼
//!   Running ──leader died──▶ Dead ──its status known──▶ Draining ──────▶ Recorded
//!                             │ (at once for an             what the       exit.json
//!                             │  own child)                 pipes held     is on disk
//!                             ▼                             then              │
//!                     unknown after a while                                   │ no process of
//!                                                                             ▼ the tree is left
//!                                                   socket and lock given up, (ends)
//! ```
//!
//! Only SIGKILL or the end of the tree ends a shim. It takes a byte from a pipe only when the spool has
//! room for it. No peer can make it wait. It touches only its working folder, which is the process's
//! folder; beside that, `/proc`, its cgroup, and the file of the lease, which it reads.
//!
//! `start` makes a `supervisor` of a bare process; `supervisor` runs the loop, and each other file owns one
//! part of its state: `leader`, `stdin`, `stage` (secrets), `guard` (limits), `fence` (the lease), `client`
//! (a connection).

mod client;
mod fence;
mod guard;
mod leader;
mod stage;
mod start;
mod stdin;
mod supervisor;

use std::process::ExitCode;

use super::handshake::report_ready;
use super::proc::{ARGUMENT, RESCUE};
use crate::failpoint;

/// Runs as a shim if the command line says so, until its tree has ended; `None`: the command line says
/// something else. To be called first in `main`, while the process has one thread.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    super::set_name(c"provost-shim");
    let rescue = arguments.next().is_some_and(|argument| argument == RESCUE);
    let started = if rescue { start::take_over() } else { start::start() };
    match &started {
        Ok(_) => report_ready("ok\n"),
        Err(reason) => report_ready(&format!("err {reason}\n")),
    }
    failpoint::hit("handshake", "made");
    let Ok(supervisor) = started else { return Some(ExitCode::FAILURE) };
    supervisor.run();
    Some(ExitCode::SUCCESS)
}

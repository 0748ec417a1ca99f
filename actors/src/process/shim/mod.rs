//! The shim: the small process between the daemon and one executor.
//!
//! It is the executor's parent, moves its output to the spool, writes down how
//! it ended, and serves one Unix socket. It needs no daemon to go on, which is
//! how executors outlive a killed one; it knows nothing of tasks or agents. It
//! runs in the daemon's own binary, entered before any runtime: one thread, one
//! `poll` loop, no memory that grows with what passes through.
//!
//! ```text
//!            exec fails: exit.json says why
//!   start ────────────────────────────────────▶ (ends)
//!     │ started.json, "ok" to the daemon
//!     ▼
//!   Running ──leader died──▶ Dead ──its status known──▶ Draining ──────▶ Recorded
//!                             │ (at once for one's          what the       exit.json
//!                             │  own child)                 pipes held     is on disk
//!                             ▼                             then              │
//!                     unknown after a while                                   │ no process of
//!                                                                             ▼ the tree is left
//!                                                   TreeGone, socket and lock given up, (ends)
//! ```
//!
//! - `start`: from a bare process to a running leader, or to one taken over.
//! - `supervisor`: the loop.
//! - `leader`: the states above.
//! - `takeover`: what a daemon hands to a shim that goes on for a dead one.
//! - `guard`: its limits.
//! - `client`: one connection. `stdin`: what is on its way to standard input.
//! - `stage`: what is on its way to the spool, secrets being taken out of it.
//!
//! Invariants: only SIGKILL or the end of the tree ends a shim. A byte is taken
//! from a pipe only when the spool has room for it. No peer can make it wait.

mod client;
mod guard;
mod leader;
mod stage;
mod start;
mod stdin;
mod supervisor;
pub mod takeover;

use std::process::ExitCode;

use super::paths::{ARGUMENT, RESCUE};
use crate::failpoint;

/// Runs as a shim if the command line says so, until it has nothing left to do.
/// To be called first thing in `main`; `None` means that this is no shim.
#[must_use]
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    super::set_name(c"provost-shim");
    let rescue = arguments.next().is_some_and(|argument| argument == RESCUE);
    let started = if rescue { start::take_over() } else { start::start() };
    let word = match &started {
        Ok(_) => "ok\n".to_owned(),
        Err(reason) => format!("err {reason}\n"),
    };
    start::hand_shake(&word);
    failpoint::hit("handshake", "made");
    match started {
        Ok(supervisor) => {
            supervisor.run();
            Some(ExitCode::SUCCESS)
        }
        Err(_) => Some(ExitCode::FAILURE),
    }
}

//! The `provost` program: daemon, bridge, command line, shim, proxy and fake executor. Only its `main`
//! and its benchmarks call this library.

#[macro_use]
extern crate macro_rules_attribute;

mod api;
mod audit;
mod bridge;
mod cli;
mod client;
mod config;
mod daemon;
mod doctor;
mod domain;
mod executors;
mod home;
mod http;
mod jsonrpc;
mod lenient;
mod mcp;
mod proxy;
mod role;
mod secret;
mod store;
mod telemetry;
mod tools;
mod work;

use std::process::ExitCode;

/// The whole program. Which part this process plays is decided by its arguments. The small parts (shim,
/// proxy, fake executor, asked program, keeper of a git, a person's program in a sandbox) come first:
/// they need no runtime and no argument parser, and a machine may run a thousand of them.
pub fn main() -> ExitCode {
    provost_actors::process::shim::enter()
        .or_else(proxy::enter)
        .or_else(executors::fake::enter)
        .or_else(executors::ask::enter)
        .or_else(provost_actors::workspace::git::enter)
        .or_else(provost_actors::process::by_hand::enter)
        .unwrap_or_else(cli::main)
}

/// The board, for programs that measure it.
pub mod board {
    pub use crate::store::{Durability, Server, Store, TimesToLive};
}

/// What reads the output of executors, for programs that measure it. Each takes a process's launch
/// state ([`Launch::dialogue`](provost_actors::executor::Launch::dialogue)).
pub mod normalizers {
    pub use crate::executors::acp::normalizer as acp;
    pub use crate::executors::claude::normalizer as claude;
    pub use crate::executors::codex::normalizer as codex;
}

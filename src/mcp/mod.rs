//! The daemon's MCP face: everything between a byte stream and the domain.
//!
//! ```text
//!   bytes ▸ transport ▸ rmcp ▸ server ▸ tool ──────────────▸ ask ▸ the daemon
//!           wire        eras   guards   check, parse, render
//!           backlog            envelope schema, modes, explain, repair, fields, mend, meant, key
//!   bytes ◂ transport ◂ rmcp ◂ server ◂ tool ◂──────────────┘
//! ```
//!
//! `tools` is the table of all there is to call, `resources` the same by URI,
//! `prompts` what teaches it, and [`ask::Ask`] the only way out of here. Nothing in
//! this folder owns state that outlives a connection, and nothing in it knows SQL,
//! actors or processes.

pub mod ask;
mod backlog;
mod envelope;
mod explain;
mod fields;
pub mod inside;
mod instructions;
mod key;
mod meant;
mod mend;
mod modes;
mod prompts;
mod rates;
mod repair;
mod resources;
mod schema;
mod server;
mod tool;
pub mod tools;
mod transport;
mod wire;
mod worker_error;

#[cfg(test)]
mod tests;

pub use backlog::Shared;
pub use explain::{BRANCH_FIELD, name_of, pointer_of, source};
pub use rates::{Rate, Rates};
pub use server::{Limits, serve};

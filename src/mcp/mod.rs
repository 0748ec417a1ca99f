//! The daemon's MCP face: everything between a byte stream and the domain.
//!
//! ```text
//!   bytes ▸ transport ▸ rmcp ▸ server ▸ tool ──────────────▸ service ▸ the daemon
//!           wire        eras   guards   check, parse, render
//!           backlog            envelope schema, validation, repair, fields, coerce, suggest, key
//!   bytes ◂ transport ◂ rmcp ◂ server ◂ tool ◂──────────────┘
//! ```
//!
//! `tools` is the table of all there is to call, `resources` the same by URI,
//! `prompts` what teaches it, and [`Service`](crate::api::Service) the only way out of here. Nothing in
//! this folder owns state that outlives a connection, and nothing in it knows SQL,
//! actors or processes.

mod backlog;
mod coerce;
mod envelope;
mod fields;
mod instructions;
mod key;
mod prompts;
mod rates;
mod repair;
mod resources;
mod schema;
mod server;
mod suggest;
mod tool;
pub mod tools;
mod transport;
mod validation;
mod wire;
mod worker_error;

#[cfg(test)]
mod tests;

pub use backlog::Shared;
pub use rates::{Rate, Rates};
pub use server::{Limits, serve};

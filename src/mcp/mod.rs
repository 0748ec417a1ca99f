//! The daemon's MCP face: everything between a byte stream and the domain.
//!
//! ```text
//!   bytes ▸ transport ▸ rmcp ▸ server ▸ tool ────────▸ service ▸ the daemon
//!           wire        eras   guards   check, parse, render
//!           backlog            envelope row, schema, contract, validation, repair, coerce
//!   bytes ◂ transport ◂ rmcp ◂ server ◂ tool ◂────────┘
//! ```
//!
//! [`Service`](crate::api::Service) is the only way out of here. Nothing in this folder owns
//! state that outlives a connection, or knows SQL, actors or processes.

mod backlog;
mod coerce;
mod contract;
mod envelope;
mod fields;
mod instructions;
mod limits;
mod prompts;
mod rates;
mod refusals;
mod repair;
mod resources;
mod row;
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
pub use limits::Limits;
pub use rates::{Rate, Rates};
pub use server::serve;

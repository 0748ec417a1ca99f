//! The tools as MCP and HTTP offer them: the table, and the path of a call.
//!
//! ```text
//!   mcp | http ▸ calls ───────────▸ tool ────────────────────▸ service ▸ the daemon
//!                rate, audit,       check, parse, ask, render
//!                role, access,      row, schema, contract, validation, repair, coerce
//!                room, time
//! ```
//!
//! [`Service`](crate::api::Service) is the only way out of here. Nothing in this folder owns
//! state that outlives a connection, or knows SQL, actors or processes.

mod calls;
mod coerce;
mod contract;
mod fields;
pub mod forwarded_calls;
mod rates;
mod refusals;
mod repair;
mod row;
mod schema;
mod suggest;
pub mod table;
mod tool;
mod validation;
pub mod worker_error;

pub use calls::{CallLimits, Calls, Permits};
pub use rates::{Left, Rate, Rates};
pub use refusals::{Unknown, unknown};
pub use row::RunKind;
pub use schema::REQUEST_ID;
pub use tool::Tool;

#[cfg(test)]
pub use {row::Effect, tool::Call};

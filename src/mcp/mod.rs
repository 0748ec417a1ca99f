//! The daemon's MCP server: everything between a byte stream and the tools.
//!
//! ```text
//!   bytes ▸ transport ▸ rmcp ▸ server ▸ tools::calls
//!           wire        eras   envelope
//!           backlog            resources, prompts
//!   bytes ◂ transport ◂ rmcp ◂ server ◂─────┘
//! ```

mod backlog;
mod envelope;
mod instructions;
mod limits;
mod outbox;
mod prompts;
mod resources;
mod server;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

pub use backlog::Shared;
pub use limits::Limits;
pub use server::{Server, serve};

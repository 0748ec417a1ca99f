//! Tests of the MCP face as a whole: laws over the table of tools, and sessions
//! over a byte stream, with a small domain behind them.

mod domain;
mod laws;
mod sessions;

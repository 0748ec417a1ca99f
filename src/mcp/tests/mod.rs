//! Tests of the MCP face as a whole: laws over the table of tools, and sessions
//! over a byte stream, with a real domain behind them.

mod laws;
mod samples;
mod scratch;
mod sessions;

//! Shims, spools and the killing of trees, with real processes.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod control;
mod kill;
mod lease;
mod limits;
mod rescue;
mod secrets;
mod spool;
mod start;
mod support;

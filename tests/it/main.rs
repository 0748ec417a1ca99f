//! Provost from outside: the real binary, real processes, real git. One module
//! a verb or a group of tools; [`harness`] is what they have in common.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod harness;
mod hints;

mod admission;
mod bridge;
mod cli;
mod crash_points;
mod daemon;
mod errors;
mod executors;
mod idempotency;
mod lines;
mod logs;
mod miscalls;
mod reattach;
mod rescue;
mod starts;
mod stop;
mod tools;
mod twenty;
mod worker;
mod worktrees;

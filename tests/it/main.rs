//! Provost from outside: the real binary, real processes, real git. One module
//! a verb or a group of tools; [`harness`] is what they have in common.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod harness;
mod hints;
mod hostile;

mod acp;
mod admission;
mod artifacts;
mod boundary;
mod bridge;
mod cache;
mod cleanup;
mod cli;
mod closed_loop;
mod comments;
mod conversations;
mod crash_points;
mod daemon;
mod doctor;
mod errors;
mod executors;
mod faults;
mod finish;
mod follow_ups;
mod gc;
mod http;
mod idempotency;
mod in_and_out;
mod inbox;
mod lines;
mod logs;
mod messages;
mod miscalls;
mod outward;
mod person;
mod postgres;
mod preview;
mod provision;
mod radar;
mod reattach;
mod replay;
mod rescue;
mod resources;
mod review;
mod sandbox;
mod scenarios;
mod starts;
mod stop;
mod tools;
mod turns;
mod twenty;
mod verbs;
mod waits;
mod worker;
mod worktrees;

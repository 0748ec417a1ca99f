//! Everything that owns something while the daemon runs.
//!
//! ```text
//!  Root ─┬─ Gateway ─┬─ Attempt ── its process (by a shim), its log, its worktrees
//!        │           └─ Attempt …
//!        └─ Checks ── the processes that check what is reported as completed
//! ```
//!
//! An attempt's life:
//!
//! ```text
//!  start ─checked─▶ written down ─▶ Queued ──slot──▶ Preparing ─▶ Running ─▶ Settled
//!                       └────────slot free───────────▲  ▲            │          │
//!                                                    │  │ Stopping ◀─┘          │
//!                                                    │  └─ a follow-up waits ───┤
//!                                                    └──── send, queue ─────────┘
//! ```
//!
//! The [`gateway`] is the single entry. The [`journal`] (what outlives the daemon) and the [`executor`]
//! (how one is launched and read) are traits: this crate knows no database, protocol or configuration file.
//! Bytes of logs never travel in messages, so no stop waits for them.

pub mod answers;
pub mod attempt;
pub mod blocking;
pub mod checks;
pub mod environment;
pub mod event;
pub mod executor;
pub mod failpoint;
pub mod forge;
pub mod gateway;
pub mod host;
pub mod ids;
pub mod journal;
pub mod limits;
pub mod log;
pub mod nearest;
pub mod plain;
pub mod process;
pub mod radar;
pub mod ready_url;
pub mod refusal;
pub mod repo_settings;
pub mod retry;
pub mod root;
pub mod sandbox;
pub mod secret;
pub mod task;
pub mod text;
pub mod workspace;
pub mod world;

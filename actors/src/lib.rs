//! Everything that owns something while the daemon runs.
//!
//! ```text
//!  Root ─┬─ Gateway ─┬─ Attempt ── its process (by a shim), its log, its worktrees
//!        │           └─ Attempt …
//!        ├─ Checks ── the processes that check what is reported done
//!        └─ Repositories: one change of a repository at a time
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
//! The [`gateway`] is the one door: each request is a message to it, answered by
//! the owner of the thing. An [`attempt`] owns its [`process`], its [`log`] and,
//! through the owners of its repositories, its [`workspace`]. What must outlive
//! the daemon goes to the [`journal`]; how an [`executor`] is launched and read
//! is its adapter's. Both are traits: this crate knows no database, no protocol
//! of clients, no command line and no configuration file.
//!
//! Log bytes never travel in messages: mailboxes are unbounded, and a stop must
//! not wait behind a flood.

pub mod attempt;
pub mod base;
pub mod blocking;
pub mod checks;
pub mod event;
pub mod executor;
pub mod failpoint;
pub mod gateway;
pub mod ids;
pub mod journal;
pub mod limits;
pub mod log;
pub mod nearest;
pub mod payload;
pub mod process;
pub mod refusal;
pub mod retry;
pub mod root;
pub mod secret;
pub mod text;
pub mod workspace;
pub mod world;

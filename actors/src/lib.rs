//! Everything that owns something while the daemon runs.
pub mod event;
pub mod executor;
pub mod ids;
pub mod journal;
pub mod log;
pub mod process;
pub mod refusal;
pub mod workspace;

//! Everything that owns something while the daemon runs.
pub mod attempt;
pub mod event;
pub mod executor;
pub mod gateway;
pub mod ids;
pub mod journal;
pub mod log;
pub mod process;
pub mod refusal;
pub mod root;
pub mod workspace;
pub mod world;

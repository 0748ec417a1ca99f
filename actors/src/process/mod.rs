//! The only place that spawns processes: shims, and through them executors.
pub mod manifest;

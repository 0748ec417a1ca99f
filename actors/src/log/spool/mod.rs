//! The spool: what one process wrote, on disk, byte for byte, secrets redacted.
//!
//! ```text
//! <attempt dir>/<process id>/
//!   manifest.json            what to run            written by the daemon before the spawn
//!   started.json             who runs               written by the child before its exec
//!   exit.json                how it ended           written by the shim
//!   lock                     flock held by the shim for its life
//!   sock                     the shim's control socket
//!   stdout-<offset>.log      segments of pure bytes, named by where they start
//!   stderr-<offset>.log
//!   spool.idx                32-byte records: when which bytes of which stream came in
//! ```
//!
//! Only the shim, or the daemon while it holds `lock`, writes here. The order of the records is the order
//! of the raw channel, which is a pure function of this folder.

pub mod format;
pub mod read;
pub mod write;

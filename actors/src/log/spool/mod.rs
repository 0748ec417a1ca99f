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
//! The shim writes, everyone else reads; nothing but the shim (or the daemon,
//! once it holds `lock`) ever changes a file here. The order of the records IS
//! the order of the raw channel, so that channel is a pure function of this
//! folder and needs no other record of what came first.

pub mod format;
pub mod read;
pub mod write;

//! An attempt's logs.
//!
//! ```text
//!   executor ─pipe─▶ shim ─splice─▶ spool (one folder a process)
//!                                     │ records in order, bytes by offset      spool/read
//!                                     ▼
//!                                   lines of one process                       lines, source
//!                                     │ numbered for the attempt; raw.idx says
//!                                     │ whose lines come next, then
//!                                     ▼
//!                                   raw channel ─────────────▶ ring ─▶ pages   raw
//!                                     │ the executor's normalizer
//!            the daemon's own events ─▶ appended to normalized-*.jsonl, then
//!                                     ▼
//!                                   normalized channel ──────▶ ring ─▶ pages   normalized
//! ```
//!
//! Two channels, each with one count of entries for the attempt's whole life.
//! The **raw** channel isn't stored: an entry's text is cut from the spool when
//! it is asked for, and a sparse index tells where to cut. The **normalized**
//! channel is stored, because what made it may be another version tomorrow.
//!
//! What holds after a kill at any instant:
//! - A number, once shown, is the same entry for ever. Each channel's record (the
//!   block of the raw index, the line of the normalized file) is on file before
//!   the entry is shown, and reading goes on behind what is on file.
//! - Nothing is missing and nothing doubled. Behind each normalized entry stands
//!   what it was made of. A restart gives the raw entries since the checkpoint to
//!   the normalizer again, which makes the same of them, and leaves out what is
//!   on file; so the files come out byte for byte as without the kill.
//!
//! ```text
//!   a process:   (unknown) ─begin─▶ read ─finish─▶ finished: leftovers only
//!                              ▲      │                  │
//!                        begin └──────┴─── restart ──────┘ pump
//! ```
//!
//! Retention removes whole segments, the shim those of the spool, this module
//! those of the normalized channel. The channel then begins later; numbers never
//! move. In the raw channel history begins where everything from there on is
//! held, of both streams and of all processes. What was removed before it was
//! read got no numbers; one number is left out in its place. If that befell
//! while the daemon was away, up to a block of what it had numbered last may come
//! once more, under new numbers and behind where history now begins.
//!
//! Only the shim writes below `<process>/`; only [`AttemptLog`] writes `raw.idx`,
//! `normalized*` and `checkpoint.json` beside it. Nothing here spawns, or knows
//! of sockets, actors or tools.

mod attempt_log;
mod checkpoint;
mod index;
mod lines;
mod live;
mod normalized;
mod page;
mod raw;
mod registry;
mod replay;
mod ring;
mod segments;
mod source;
pub mod spool;
pub mod tail;
mod writer;

use std::io;

pub use attempt_log::AttemptLog;
pub use lines::MAX_LINE;
pub use page::{Flags, MAX_LIMIT, PagePosition, Query};
pub use raw::process_dir;
pub use registry::Logs;
pub use replay::{Difference, Replay, replay};
pub use ring::Entry;

use crate::event::Timestamp;
use crate::executor::{InProgress, Observed};
use crate::ids::ProcessId;
use page::ReadError;

/// How much of a log is kept, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Newest entries of each channel in memory.
    pub ring_entries: usize,
    /// Bytes of JSON of these, of each channel.
    pub ring_bytes: usize,
    /// Bytes of the normalized channel on disk, beyond which its oldest segments go.
    pub spool_max_bytes: u64,
}

/// What one call of `pump` took in.
#[derive(Clone, Debug, PartialEq)]
pub struct Pumped {
    /// It stopped at its limit: call again.
    pub more: bool,
    /// What was observed, save entries and messages in progress. After a restart
    /// the newest of each kind comes once more, should it have been missed.
    pub observed: Vec<Observed>,
}

/// Where both channels stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// Number of the latest entry; `None` when there was none.
    pub raw: Option<u64>,
    pub normalized: Option<u64>,
    /// When the executor last wrote anything that was taken in.
    pub last_activity_at: Option<Timestamp>,
}

/// A page of one channel, its entries in ascending order. By default that of a
/// channel without entries.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub flags: Flags,
    /// On pages of the normalized channel.
    pub in_progress: Option<InProgress>,
}

/// Why a log can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A full disk is one of these; the same call may work later.
    #[error("the attempt's log: {0}")]
    Io(#[from] io::Error),
    #[error("the attempt's log is damaged: {0}")]
    Damaged(String),
    #[error("process {0} was not begun")]
    NotBegun(ProcessId),
    #[error("the attempt's log is removed faster than it can be read")]
    Outrun,
}

impl From<ReadError> for LogError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Gone => Self::Outrun,
            ReadError::Io(error) => Self::Io(error),
            ReadError::Damaged(error) => Self::Damaged(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;

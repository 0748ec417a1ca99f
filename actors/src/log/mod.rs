//! An attempt's logs.
//!
//! ```text
//!   executor ─pipe─▶ shim ─splice─▶ spool (one folder a process)               spool
//!                                     │ records in order, bytes by offset
//!                                     ▼
//!                                   lines of one process                       lines, source
//!                                     │ numbered for the attempt by raw.idx
//!                                     ▼
//!                                   raw channel ────────────────────▶ pages   raw
//!                                     │ the executor's normalizer
//!            the daemon's own events ─▶ appended to normalized-*.jsonl
//!                                     ▼
//!                                   normalized channel ──────▶ ring ─▶ pages   normalized
//! ```
//!
//! The **raw** channel isn't stored: an entry's text is cut from the spool on demand, and a
//! sparse index tells where to cut. The **normalized** channel is stored, because another
//! version may derive other entries. After a kill at any instant:
//! - A number, once shown, is the same entry forever: each channel's record is on file
//!   before the entry is shown.
//! - Nothing is missing and nothing doubled: a restart gives the raw entries since the
//!   checkpoint to the normalizer again, and skips the results that are on file.
//!
//! Retention removes whole segments; numbers never move. If it removes bytes before they are
//! read, one number is skipped; if that happened while the daemon was away, up to a block of
//! earlier entries may be repeated under new numbers. Only [`AttemptLog`] writes `raw.idx`,
//! `normalized*` and `checkpoint.json`.

mod attempt_log;
mod checkpoint;
mod entry_text;
mod index;
mod line_reader;
mod lines;
mod live;
mod normalized;
mod page;
mod raw;
mod replay;
mod ring;
mod sealed;
mod segments;
pub mod shipped;
mod source;
pub mod spool;
pub mod tail;

use std::io;

pub use attempt_log::{AttemptLog, Logs};
pub use lines::{LineCutter, MAX_LINE};
pub use normalized::Mark;
pub use page::{Flags, MAX_LIMIT, PagePosition, Query};
pub use raw::process_dir;
pub use replay::{Difference, Replay, replay};
pub use ring::Entry;

use crate::event::Timestamp;
use crate::executor::InProgress;
use crate::ids::ProcessId;

/// The bounds of one attempt's log, from the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Most entries of the normalized channel that are kept in memory.
    pub ring_entries: usize,
    /// Most bytes of JSON of the entries in memory.
    pub ring_bytes: usize,
    /// Most bytes of text of the normalized channel on disk; retention removes the oldest segments beyond.
    pub spool_max_bytes: u64,
}

/// How far both channels are, as readers may see it. The writer moves it after the entries are on file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// Number of the latest entry of the raw channel; `None` when there was none. An old number stays even
    /// when retention has removed the entry.
    pub raw: Option<u64>,
    /// The same of the normalized channel.
    pub normalized: Option<u64>,
    /// When an executor wrote the newest bytes that the writer has read so far.
    pub last_activity_at: Option<Timestamp>,
}

/// One page of a channel: consecutive entries in ascending order, and where the next page continues.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub flags: Flags,
    /// The message that the agent streams now; only on pages of the normalized channel of a log on this
    /// host.
    pub in_progress: Option<InProgress>,
}

/// Why a log can't be read or written. `Io`, `Copy` and `Outrun` may pass; the others do not.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the attempt's log: {0}")]
    Io(#[from] io::Error),
    /// A file holds what no writer has written. To try again gives the same.
    #[error("the attempt's log is damaged: {0}")]
    Damaged(String),
    /// A call for a process that has neither been begun nor finished in this log.
    #[error("process {0} was not begun")]
    NotBegun(ProcessId),
    /// The rows that hold the copy could not be read or written, or lack entries.
    #[error("the copy of the attempt's log: {0}")]
    Copy(String),
    /// Retention removed the entries while they were read.
    #[error("the attempt's log is removed faster than it can be read")]
    Outrun,
}

#[cfg(test)]
mod tests;

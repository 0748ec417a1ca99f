//! The normalized channel on disk: lines of JSON in segments, with a sparse index of where entries start.
//! Each line ends with the origin of its entry; after a crash the origins say which entries are on file when
//! the rest is derived again.
//!
//! ```text
//! normalized-<offset>.jsonl      {"entry_index":7,…}<tab>{"raw":12}<newline>
//! normalized-<offset>.jsonl.zst  the same, compressed: full segments
//! normalized.idx                 entry 0 at 0 | entry 256 at 31337 | …
//! ```
//!
//! A segment's life; a restart can find each of these states, and continues or leaves it:
//!
//! ```text
//!  grows ─full─▶ plain, waits for its thread ─sealed─▶ compressed ─over the limit─▶ removed
//!                     └─ can't be compressed: stays plain ──────────────────────────▲
//! ```
//!
//! A thread seals a full segment while the next one is written. One that a killed daemon has left plain is
//! sealed when the channel is opened again. Offsets are those of the text.

mod read;

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

pub use read::{NormalizedReader, OnFile};
use serde::{Deserialize, Serialize};

use super::LogError;
use super::entry_text::EntryText;
use super::index::{Fields, FixedRecord, RecordFile};
use super::line_reader::LineReader;
use super::ring::Entry;
use super::segments::Series;
use super::spool::format::segment_bytes;
use crate::blocking::if_there;
use crate::event::{NormalizedEntry, Timestamp};
use crate::ids::{ApprovalId, ProcessId};

const INDEX: &str = "normalized.idx";

/// A mark of the index is due after so many entries …
const MARK_ENTRIES: u64 = 256;
/// … or so many bytes, whichever comes first: what a page reads to find its first entry.
const MARK_BYTES: u64 = 16 * 1024;

/// Bytes that are reserved for an entry's line; longer lines grow the buffer.
const USUAL_LINE: usize = 256;

/// What an entry was derived from. The Nth entry of an origin is the same after every restart, so counting
/// those on file shows how many results to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The process's normalizer, when it was given the raw entry with this number.
    Raw(u64),
    /// The process's normalizer, when the process had ended.
    End,
    /// `AttemptLog::begin`, in the order of its events.
    Opening,
    /// `AttemptLog::finish`, in the order of its events.
    Closing,
    /// The daemon, when there was a verdict on what the process had asked for.
    Verdict(ApprovalId),
    /// The daemon by itself: never derived again.
    Daemon,
}

/// An entry that has no number yet (`entry_index` is 0), with its origin.
pub type Draft = (Origin, NormalizedEntry);

/// Where an entry starts: its number, and its offset in the text of the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub entry: u64,
    pub offset: u64,
}

impl FixedRecord for Mark {
    const LEN: usize = 16;

    fn bytes(&self) -> Vec<u8> {
        [self.entry, self.offset].map(u64::to_le_bytes).concat()
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { entry: fields.u64()?, offset: fields.u64()? })
    }
}

/// What is read back of an entry on file: all but its event.
#[derive(Clone, Copy, Deserialize)]
pub struct Stored {
    pub entry_index: u64,
    pub at: Timestamp,
    #[serde(rename = "execution_process_id")]
    pub process: ProcessId,
    pub turn: u32,
}

fn series(dir: &Path) -> Series {
    Series { dir: dir.to_owned(), prefix: "normalized", suffix: "jsonl" }
}

/// The only writer of the channel's files. After an error it must be opened again.
pub struct NormalizedWriter {
    files: Series,
    index: RecordFile<Mark>,
    segment: File,
    /// Offset at which the segment that grows starts.
    segment_start: u64,
    /// Offset at which the oldest segment starts.
    oldest: u64,
    /// Where the next entry goes.
    pub end: Mark,
    last_mark: Mark,
    max_bytes: u64,
    sealing: Option<JoinHandle<()>>,
}

impl NormalizedWriter {
    /// Opens the channel and cuts off a torn line. `on_file` is called for every entry from `from` on, which
    /// is where the last checkpoint ended.
    ///
    /// # Errors
    /// `Damaged` where a line before the last segment can't be read.
    pub fn open(
        dir: &Path,
        max_bytes: u64,
        from: Mark,
        mut on_file: impl FnMut(Stored, Origin),
    ) -> Result<Self, LogError> {
        let files = series(dir);
        let index: RecordFile<Mark> = RecordFile::open(&dir.join(INDEX))?;
        let starts = files.starts()?;
        let oldest = starts.first().copied().unwrap_or(0);
        let newest = starts.last().copied().unwrap_or(0);
        // A sealed segment gets no more entries. It can be the newest one only after a power cut.
        let segment_start = files.sealed_end(newest)?.unwrap_or(newest);
        let segment = open_segment(&files, segment_start)?;
        let written = segment_start + segment.metadata()?.len();
        cut_marks(&index, written)?;
        // Only after a power cut is less on file than the checkpoint says: then search from the last mark.
        let known = Some(from).filter(|from| from.offset <= written);
        let mut end =
            known.map_or_else(|| index.last(), |from| Ok(Some(from)))?.unwrap_or_default();
        let mut lines = LineReader::new(series(dir), end.offset);
        while let Some(line) = lines.next_line()? {
            let Some((stored, origin, _)) = parse(line) else { break };
            end = Mark { entry: end.entry + 1, offset: end.offset + line.len() as u64 + 1 };
            on_file(stored, origin);
        }
        let torn_at = end.offset.checked_sub(segment_start).ok_or_else(|| {
            LogError::Damaged(format!("{} before its end", files.path(segment_start).display()))
        })?;
        segment.set_len(torn_at)?;
        cut_marks(&index, end.offset)?;
        // There is a mark every `MARK_ENTRIES` entries at least: a longer way to the end shows that marks
        // are lost.
        let is_marked = index.last()?.is_some_and(|mark| end.entry - mark.entry <= MARK_ENTRIES);
        if !is_marked && end.entry > 0 {
            tracing::error!(path = %dir.join(INDEX).display(), "the index is damaged; it is built again");
            rebuild_index(&index, dir, &starts, end)?;
        }
        let last_mark = index.last()?.unwrap_or_default();
        let sealing = None;
        let mut writer = Self {
            files,
            index,
            segment,
            segment_start,
            oldest,
            end,
            last_mark,
            max_bytes,
            sealing,
        };
        writer.seal_left(&starts)?;
        Ok(writer)
    }

    /// Has the segments sealed that an earlier daemon has left plain. One of another length has lost its end
    /// by a power cut, and stays as it is.
    fn seal_left(&mut self, starts: &[u64]) -> io::Result<()> {
        let ends = starts.iter().skip(1).chain([&self.segment_start]);
        let mut left = Vec::new();
        for (&start, &end) in starts.iter().zip(ends) {
            let plain = if_there(std::fs::metadata(self.files.path(start)))?;
            if start < end && plain.is_some_and(|plain| plain.len() == end - start) {
                left.push(start..end);
            }
        }
        if !left.is_empty() {
            self.seal(left.into_iter());
        }
        Ok(())
    }

    /// A reader beside this writer. It stays valid when the writer is replaced.
    pub fn reader(&self) -> NormalizedReader {
        let (dir, index) = (self.files.dir.clone(), self.index.clone());
        NormalizedReader { dir, index, last: Arc::default() }
    }

    /// Numbers entries and puts them on file; returns them as readers get them.
    pub fn append(&mut self, drafts: Vec<Draft>) -> Result<Vec<Entry>, LogError> {
        let mut places = Vec::with_capacity(drafts.len());
        let mut ends = Vec::with_capacity(drafts.len());
        let mut lines = Vec::with_capacity(drafts.len() * USUAL_LINE);
        let first = self.end.entry;
        let mut text = EntryText::default();
        for (index, (origin, mut draft)) in (first..).zip(drafts) {
            draft.entry_index = index;
            let before = lines.len();
            text.write(&draft, &mut lines)?;
            places.push(before..lines.len());
            lines.push(b'\t');
            serde_json::to_writer(&mut lines, &origin).map_err(io::Error::from)?;
            lines.push(b'\n');
            ends.push(lines.len());
        }
        self.file(&lines, ends)?;
        let lines = String::from_utf8(lines).map_err(io::Error::other)?;
        Ok(Entry::of_lines(first, lines, places))
    }

    /// Writes lines that end at these places of `lines`. Marks go before their lines: a mark without a line
    /// is cut at the next opening, a line without its mark would never get one.
    fn file(&mut self, lines: &[u8], ends: impl IntoIterator<Item = usize>) -> io::Result<()> {
        let (mut written, mut begin, mut marks) = (0, 0, Vec::new());
        for end in ends {
            if self.end.offset - self.segment_start >= segment_bytes(self.max_bytes) {
                self.index.push_all(&std::mem::take(&mut marks))?;
                self.segment.write_all(&lines[written..begin])?;
                written = begin;
                self.begin_segment()?;
            }
            if self.is_mark_due() {
                marks.push(self.end);
                self.last_mark = self.end;
            }
            self.end.entry += 1;
            self.end.offset += (end - begin) as u64;
            begin = end;
        }
        self.index.push_all(&marks)?;
        self.segment.write_all(&lines[written..])
    }

    /// Continues with the lines of a copy, at the place that they had in the copied log. `Damaged` unless
    /// they follow what is here, or nothing is here.
    pub fn copy(&mut self, at: Mark, lines: &[u8]) -> Result<(), LogError> {
        if self.end != at && self.end == Mark::default() {
            // The oldest segments of the copied log are gone: this one begins where the copy does.
            self.segment = open_segment(&self.files, at.offset)?;
            self.files.remove(self.segment_start)?;
            (self.segment_start, self.oldest, self.end) = (at.offset, at.offset, at);
        }
        if self.end != at {
            return Err(LogError::Damaged(format!("entry {} does not follow its copy", at.entry)));
        }
        self.file(lines, memchr::memchr_iter(b'\n', lines).map(|at| at + 1))?;
        Ok(())
    }

    /// Waits until the full segments are compressed; then everything is on the disk. Returns the end.
    pub fn close(mut self) -> io::Result<Mark> {
        if let Some(sealing) = self.sealing.take() {
            let _ = sealing.join();
        }
        self.sync()?;
        Ok(self.end)
    }

    /// Begins the next segment, and has the full one sealed.
    fn begin_segment(&mut self) -> io::Result<()> {
        let (full, end) = (self.segment_start, self.end.offset);
        self.segment = open_segment(&self.files, end)?;
        self.segment_start = end;
        self.seal(std::iter::once(full..end));
        Ok(())
    }

    /// Has a thread of low priority seal full segments, after those before them. If no thread can be
    /// started, they stay plain, which costs only space.
    fn seal(&mut self, full: impl Iterator<Item = Range<u64>> + Send + 'static) {
        let (files, index, earlier) = (self.files.clone(), self.index.clone(), self.sealing.take());
        let seal = move || {
            give_way();
            if let Some(earlier) = earlier {
                let _ = earlier.join();
            }
            for range in full {
                let start = range.start;
                let sealed = marks(&index, range).and_then(|cuts| files.seal(start, &cuts));
                // A segment that can't be compressed stays plain, and readers use it as it is.
                if let Err(error) = sealed {
                    let path = files.path(start);
                    tracing::warn!(%error, path = %path.display(), "a segment can't be compressed");
                }
            }
        };
        let thread = thread::Builder::new().name("seal".to_owned()).spawn(seal);
        let cannot = |error: &_| tracing::warn!(%error, "no thread can compress a segment");
        self.sealing = thread.inspect_err(cannot).ok();
    }

    /// Whether retention has removed no segment.
    pub fn is_whole(&self) -> bool {
        self.oldest == 0
    }

    /// Whether [`drop_oldest`](Self::drop_oldest) has something to remove; never the segment that grows.
    pub fn is_over_limit(&self) -> bool {
        self.oldest < self.segment_start && self.end.offset - self.oldest > self.max_bytes
    }

    /// Retention: removes the oldest segments while the channel is over its limit.
    pub fn drop_oldest(&mut self) -> io::Result<()> {
        let starts = self.files.starts()?;
        for (start, next) in starts.iter().zip(starts.iter().skip(1)) {
            if !self.is_over_limit() {
                break;
            }
            self.files.remove(*start)?;
            self.oldest = *next;
        }
        Ok(())
    }

    /// Waits until the entries so far are on the disk; full segments are synced when they are sealed.
    pub fn sync(&self) -> io::Result<()> {
        self.segment.sync_data()?;
        self.index.sync()
    }

    /// Marks are regular, and there is one at each segment's start, where retention cuts.
    fn is_mark_due(&self) -> bool {
        let is_segment_start = self.end.offset == self.segment_start;
        let is_far = self.end.entry - self.last_mark.entry >= MARK_ENTRIES
            || self.end.offset - self.last_mark.offset >= MARK_BYTES;
        is_segment_start || is_far
    }
}

/// Where the text of a folder's channel ends; `None`: the folder has no channel.
pub fn end_offset(dir: &Path) -> io::Result<Option<u64>> {
    let files = series(dir);
    let Some(newest) = files.starts()?.last().copied() else { return Ok(None) };
    let plain = if_there(std::fs::metadata(files.path(newest)))?;
    Ok(match plain {
        Some(plain) => Some(newest + plain.len()),
        None => files.sealed_end(newest)?,
    })
}

/// Lowers the priority of this thread: on Linux, nice(2) changes the calling thread alone.
fn give_way() {
    // The lowest priority is 19. A failure changes nothing but speed.
    let _ = rustix::process::nice(10);
}

/// The offsets of the marks within a range.
fn marks(index: &RecordFile<Mark>, range: Range<u64>) -> io::Result<Vec<u64>> {
    let first = index.partition_point(|mark| mark.offset < range.start)?;
    let mut offsets = Vec::new();
    while let Some(mark) = index.get(first + offsets.len() as u64)?
        && range.contains(&mark.offset)
    {
        offsets.push(mark.offset);
    }
    Ok(offsets)
}

/// Drops the marks beyond an offset: a crash came between them and their lines.
fn cut_marks(index: &RecordFile<Mark>, end: u64) -> io::Result<()> {
    while index.last()?.is_some_and(|mark| mark.offset > end) {
        index.truncate(index.len()? - 1)?;
    }
    Ok(())
}

/// Makes the marks again from the lines, after the index lost its end.
fn rebuild_index(
    index: &RecordFile<Mark>,
    dir: &Path,
    starts: &[u64],
    end: Mark,
) -> Result<(), LogError> {
    index.truncate(0)?;
    let mut due = 0;
    for (number, start) in starts.iter().enumerate() {
        let until = starts.get(number + 1).copied().unwrap_or(end.offset);
        let (mut offset, mut lines) = (*start, LineReader::new(series(dir), *start));
        while offset < until {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                // The rest of a compressed segment that is damaged can't be read.
                Ok(None) | Err(LogError::Damaged(_)) => break,
                Err(error) => return Err(error),
            };
            // A damaged line is skipped: a mark before it leads there.
            if let Some((Stored { entry_index: entry, .. }, ..)) = parse(line)
                && (entry >= due || offset == *start)
            {
                index.push(&Mark { entry, offset })?;
                due = entry + MARK_ENTRIES;
            }
            offset += line.len() as u64 + 1;
        }
    }
    Ok(())
}

fn open_segment(files: &Series, start: u64) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(files.path(start))
}

/// A line's entry, its origin and its JSON, in which a tab is always escaped; `None` for a damaged line.
fn parse(line: &[u8]) -> Option<(Stored, Origin, &str)> {
    let (json, origin) = str::from_utf8(line).ok()?.rsplit_once('\t')?;
    Some((serde_json::from_str(json).ok()?, serde_json::from_str(origin).ok()?, json))
}

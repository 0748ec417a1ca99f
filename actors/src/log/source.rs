//! One process's raw lines, in the order of its spool's records. From the same [`Position`] it gives the
//! same lines at any time, as long as retention leaves them.
//!
//! Retention may remove bytes that were not read yet. Then one stream passes over the hole:
//!
//! ```text
//!  reading ─bytes are gone─▶ behind the hole ─a `\n` is found─▶ reading, from the line after it
//!                              │      ▲                          (ReadStep::Gap, once)
//!                              └──────┘ no `\n` yet (ReadStep::Idle, `is_in_gap`)
//! ```
//!
//! The line that the hole ends in has lost its beginning, so it is left out as a whole.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lines::{Line, LineCutter};
use super::segments::SegmentRead;
use super::spool::format::{Record, STREAMS};
use super::spool::read::SpoolReader;
use crate::event::{Stream, Timestamp};

/// Bytes of one read: few at first, as one page needs few, then twice as many each time.
const LEAST: usize = 8 * 1024;
const CHUNK: usize = 64 * 1024;

/// The offsets `until` of [`ProcessLines::next_step`] for a reader that wants all there is.
pub const ALL: [u64; 2] = [u64::MAX; 2];

/// Where reading continues in a process's spool: everything that a restart needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the spool's record that is read next, or being read.
    pub record: u64,
    /// Where the open lines of stdout and stderr start …
    pub open: [u64; 2],
    /// … and how far the streams have been read, so that the open lines are read again to the same point.
    pub read: [u64; 2],
}

/// A line with the time and the stream of the record that completed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLine {
    /// When the bytes came in that ended the line, or that showed that it is longer than one part.
    pub at: Timestamp,
    pub stream: Stream,
    pub line: Line,
}

/// One step of reading a process's lines.
pub enum ReadStep {
    Line(RawLine),
    /// Retention removed bytes that were not read yet; reading continues at the next line after them.
    Gap,
    /// Nothing more can be read now: the spool's end, the offsets `until`, or a hole without a line's end.
    Idle,
}

/// Reads the lines of one process beside the shim that writes its spool.
pub struct ProcessLines {
    spool: SpoolReader,
    cutters: [LineCutter; 2],
    /// How far the open lines had been read before; read again first.
    known: [u64; 2],
    /// Behind a hole: up to which offset the end of the cut line has been searched.
    behind: [Option<u64>; 2],
    /// Number of `current`, or of the record that comes next.
    record: u64,
    current: Option<Record>,
    /// The buffer of a read. It is dropped when there is nothing to read, because most processes are idle.
    chunk: Vec<u8>,
}

impl ProcessLines {
    /// Reads the spool in a process's folder from a position on.
    pub fn at(dir: &Path, position: Position) -> Self {
        Self::over(SpoolReader::open(dir), position)
    }

    /// Gives the opened spool back, for the next reader of the same process.
    pub fn into_spool(self) -> SpoolReader {
        self.spool
    }

    /// The same over a spool that an earlier reader has opened.
    pub fn over(spool: SpoolReader, position: Position) -> Self {
        Self {
            spool,
            cutters: position.open.map(LineCutter::at),
            known: position.read,
            behind: [None; 2],
            record: position.record,
            current: None,
            chunk: Vec::new(),
        }
    }

    /// Where the next reader has to begin to get the lines that come after those given so far.
    pub fn position(&self) -> Position {
        let wanted = self.wanted();
        let read = [wanted[0].max(self.known[0]), wanted[1].max(self.known[1])];
        Position { record: self.record, open: self.open(), read }
    }

    /// When the executor wrote the newest bytes that were read so far; `None` before the first.
    pub fn last_at(&mut self) -> io::Result<Option<Timestamp>> {
        let newest = match self.current_record()? {
            Some(record) if self.wanted()[record.stream as usize] > record.offset => Some(record),
            _ => match self.record.checked_sub(1) {
                Some(before) => self.spool.record(before)?,
                None => None,
            },
        };
        Ok(newest.map(|record| Timestamp::from_millis(record.at_ms)))
    }

    /// The next line that ends before the offsets `until` (stdout's, stderr's). Lines of the two streams
    /// come in the order in which the shim recorded the bytes that completed them.
    pub fn next_step(&mut self, until: [u64; 2]) -> io::Result<ReadStep> {
        // At first read the open lines up to where they had been read: they may have begun in records before
        // the current one, which are not visited again.
        for stream in STREAMS {
            let known = self.known[stream as usize];
            while self.cutters[stream as usize].wanted() < known {
                if let Some(step) = self.read(stream, known)? {
                    return Ok(step);
                }
            }
        }
        loop {
            let Some(record) = self.current_record()? else {
                self.chunk = Vec::new();
                return Ok(ReadStep::Idle);
            };
            let Record { at_ms, stream, .. } = record;
            let cutter = &mut self.cutters[stream as usize];
            if let Some(line) = cutter.next_line() {
                return Ok(ReadStep::Line(RawLine {
                    at: Timestamp::from_millis(at_ms),
                    stream,
                    line,
                }));
            }
            if cutter.wanted() >= record.end() {
                self.current = None;
                self.record += 1;
            } else if let Some(step) =
                self.read(stream, record.end().min(until[stream as usize]))?
            {
                return Ok(step);
            }
        }
    }

    /// Reads a chunk before the offset `end` into a stream's cutter. `Some`: nothing was added to it.
    fn read(&mut self, stream: Stream, end: u64) -> io::Result<Option<ReadStep>> {
        if let Some(from) = self.behind[stream as usize] {
            return self.pass_over(stream, from).map(Some);
        }
        let cutter = &mut self.cutters[stream as usize];
        let wanted = cutter.wanted();
        let most = (self.chunk.len() * 2).clamp(LEAST, CHUNK);
        let left = usize::try_from(end.saturating_sub(wanted)).unwrap_or(CHUNK).min(most);
        if left == 0 {
            return Ok(Some(ReadStep::Idle));
        }
        if self.chunk.len() < left {
            self.chunk.resize(left, 0);
        }
        match self.spool.read_at(stream, wanted, &mut self.chunk[..left])? {
            SegmentRead::Bytes(read) => {
                cutter.push(&self.chunk[..read]);
                Ok(None)
            }
            SegmentRead::NotYet => Ok(Some(ReadStep::Idle)),
            SegmentRead::Gone { resume } => {
                // The open line has lost its end: forget what was read of it.
                *cutter = LineCutter::at(cutter.start);
                self.pass_over(stream, resume).map(Some)
            }
        }
    }

    /// Whether a stream is behind a hole, and the end of the cut line has not been written yet.
    pub fn is_in_gap(&self) -> bool {
        self.behind.iter().any(Option::is_some)
    }

    /// Searches from an offset on for the end of the line that a hole ends in.
    fn pass_over(&mut self, stream: Stream, mut from: u64) -> io::Result<ReadStep> {
        self.chunk.resize(CHUNK, 0);
        loop {
            match self.spool.read_at(stream, from, &mut self.chunk)? {
                SegmentRead::Bytes(read) => {
                    if let Some(end) = self.chunk[..read].iter().position(|byte| *byte == b'\n') {
                        self.behind[stream as usize] = None;
                        self.cutters[stream as usize] = LineCutter::at(from + end as u64 + 1);
                        return Ok(ReadStep::Gap);
                    }
                    from += read as u64;
                }
                SegmentRead::NotYet => {
                    self.behind[stream as usize] = Some(from);
                    return Ok(ReadStep::Idle);
                }
                SegmentRead::Gone { resume } => from = resume,
            }
        }
    }

    /// Gives the open lines of a process that has ended: stdout's first, then stderr's.
    pub fn end(&mut self) -> impl Iterator<Item = (Stream, Line)> {
        let lines = STREAMS.into_iter().zip(&mut self.cutters);
        lines.filter_map(|(stream, cutter)| Some((stream, cutter.end()?)))
    }

    /// Offsets at which the open lines of stdout and stderr start.
    pub fn open(&self) -> [u64; 2] {
        self.cutters.each_ref().map(|cutter| cutter.start)
    }

    /// Offsets up to which stdout and stderr have been read.
    pub fn wanted(&self) -> [u64; 2] {
        self.cutters.each_ref().map(LineCutter::wanted)
    }

    /// The record at `record`; `None` when the shim has not written it yet.
    fn current_record(&mut self) -> io::Result<Option<Record>> {
        if self.current.is_none() {
            self.current = self.spool.record(self.record)?;
        }
        Ok(self.current)
    }
}

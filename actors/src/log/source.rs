//! One process's raw lines, in the order in which its spool's records tell
//! them. Reads the spool only; from the same [`Position`] it gives the same
//! lines at any time, as long as retention leaves them. Where retention took bytes
//! that were not read yet, reading goes on at the beginning of a line: what is left
//! of the line that the hole ends in is passed over with it.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lines::{Line, LineCutter, slot};
use super::segments::SegmentRead;
use super::spool::format::Record;
use super::spool::read::SpoolReader;
use crate::event::{Stream, Timestamp};

/// Bytes taken from the spool at once.
const CHUNK: usize = 64 * 1024;

/// How far a process's streams may be read when all there is is wanted.
pub const ALL: [u64; 2] = [u64::MAX; 2];

/// Where reading goes on: everything a restart needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of the spool's record that is read next, or being read.
    pub record: u64,
    /// Where the open lines of stdout and stderr start …
    pub open: [u64; 2],
    /// … and how far they have been read.
    pub read: [u64; 2],
}

/// A raw line before it is numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLine {
    /// When the record came in that ended the line, or showed that it goes on.
    pub at: Timestamp,
    pub stream: Stream,
    pub line: Line,
}

/// What comes next.
#[derive(Debug)]
pub enum ReadStep {
    Line(RawLine),
    /// Retention took bytes that were not read yet; reading goes on after them.
    Gap,
    /// Nothing more for now.
    Idle,
}

enum Read {
    Some,
    None,
    Gap,
}

/// Reads one process's lines.
pub struct ProcessLines {
    spool: SpoolReader,
    cutter: LineCutter,
    /// How far the open lines had been read before; read again first.
    known: [u64; 2],
    /// Behind a hole, how far the end of the line has been looked for that it ends in.
    /// Until it is found, the position stays before the hole.
    behind: [Option<u64>; 2],
    /// Number of `current`, or of the record that comes next.
    record: u64,
    current: Option<Record>,
    chunk: Vec<u8>,
}

impl ProcessLines {
    /// Reads the spool in `dir` from `position` on.
    #[must_use]
    pub fn at(dir: &Path, position: Position) -> Self {
        Self {
            spool: SpoolReader::open(dir),
            cutter: LineCutter::at(position.open),
            known: position.read,
            behind: [None; 2],
            record: position.record,
            current: None,
            chunk: vec![0; CHUNK],
        }
    }

    /// Where to go on after the last line that was given.
    #[must_use]
    pub fn position(&self) -> Position {
        let wanted = self.wanted();
        let read = [wanted[0].max(self.known[0]), wanted[1].max(self.known[1])];
        Position { record: self.record, open: self.cutter.open(), read }
    }

    /// When the newest bytes read so far were written; `None` before the first.
    pub fn last_at(&mut self) -> io::Result<Option<Timestamp>> {
        let newest = match self.current_record()? {
            Some(record) if self.cutter.wanted(record.stream) > record.offset => Some(record),
            _ => match self.record.checked_sub(1) {
                Some(before) => self.spool.record(before)?,
                None => None,
            },
        };
        Ok(newest.map(|record| Timestamp::from_millis(record.at_ms)))
    }

    /// The next line that ends before the offsets `until` (stdout's, stderr's).
    pub fn next_step(&mut self, until: [u64; 2]) -> io::Result<ReadStep> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            while self.cutter.wanted(stream) < self.known[slot(stream)] {
                match self.read(stream, self.known[slot(stream)])? {
                    Read::Some => {}
                    Read::None => return Ok(ReadStep::Idle),
                    Read::Gap => return Ok(ReadStep::Gap),
                }
            }
        }
        loop {
            let Some(record) = self.current_record()? else { return Ok(ReadStep::Idle) };
            let at = Timestamp::from_millis(record.at_ms);
            if let Some(line) = self.cutter.next_line(record.stream) {
                return Ok(ReadStep::Line(RawLine { at, stream: record.stream, line }));
            }
            if self.cutter.wanted(record.stream) >= record.end() {
                self.current = None;
                self.record += 1;
                continue;
            }
            match self.read(record.stream, record.end().min(until[slot(record.stream)]))? {
                Read::Some => {}
                Read::None => return Ok(ReadStep::Idle),
                Read::Gap => return Ok(ReadStep::Gap),
            }
        }
    }

    /// Reads a chunk of a stream's bytes before the offset `end` into the cutter.
    fn read(&mut self, stream: Stream, end: u64) -> io::Result<Read> {
        if let Some(from) = self.behind[slot(stream)] {
            return self.pass_over(stream, from);
        }
        let wanted = self.cutter.wanted(stream);
        let left = usize::try_from(end.saturating_sub(wanted)).unwrap_or(CHUNK);
        if left == 0 {
            return Ok(Read::None);
        }
        match self.spool.read_at(stream, wanted, &mut self.chunk[..left.min(CHUNK)])? {
            SegmentRead::Bytes(read) => {
                self.cutter.push(stream, &self.chunk[..read]);
                Ok(Read::Some)
            }
            SegmentRead::NotYet => Ok(Read::None),
            SegmentRead::Gone { resume } => {
                // What was read of the open line has lost its end.
                self.cutter.skip_to(stream, self.cutter.open()[slot(stream)]);
                self.pass_over(stream, resume)
            }
        }
    }

    /// Whether bytes are gone, and the line that the hole ends in has no end yet.
    pub fn is_in_gap(&self) -> bool {
        self.behind.iter().any(Option::is_some)
    }

    /// Looks for the end of the line that a hole ends in, from an offset on.
    fn pass_over(&mut self, stream: Stream, from: u64) -> io::Result<Read> {
        let mut from = from;
        loop {
            match self.spool.read_at(stream, from, &mut self.chunk)? {
                SegmentRead::Bytes(read) => {
                    if let Some(end) = self.chunk[..read].iter().position(|byte| *byte == b'\n') {
                        self.behind[slot(stream)] = None;
                        self.cutter.skip_to(stream, from + end as u64 + 1);
                        return Ok(Read::Gap);
                    }
                    from += read as u64;
                }
                SegmentRead::NotYet => {
                    self.behind[slot(stream)] = Some(from);
                    return Ok(Read::None);
                }
                SegmentRead::Gone { resume } => from = resume,
            }
        }
    }

    /// Ends the open lines: stdout's first, then stderr's.
    pub fn end(&mut self) -> impl Iterator<Item = (Stream, Line)> {
        [Stream::Stdout, Stream::Stderr]
            .into_iter()
            .filter_map(|stream| Some((stream, self.cutter.end(stream)?)))
    }

    /// Whether a stream has an open line.
    #[must_use]
    pub fn has_open_line(&self) -> bool {
        self.wanted() != self.cutter.open()
    }

    /// The offsets of the bytes wanted next.
    #[must_use]
    pub fn wanted(&self) -> [u64; 2] {
        [self.cutter.wanted(Stream::Stdout), self.cutter.wanted(Stream::Stderr)]
    }

    fn current_record(&mut self) -> io::Result<Option<Record>> {
        if self.current.is_none() {
            self.current = self.spool.record(self.record)?;
        }
        Ok(self.current)
    }
}

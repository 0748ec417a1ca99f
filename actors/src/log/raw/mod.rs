//! The raw channel: the lines of all of an attempt's processes under one count.
//!
//! Each record of `raw.idx` begins a block: a run of one process's consecutive entries. A block is on file
//! before readers see its entries, and its size is limited. So after a crash the last block, read again
//! from the spool, holds all the entries that readers can have seen.
//!
//! ```text
//! raw.idx   | block 0: entry 0, P, start | block 1: entry 256, P, start | block 2: entry 300, Q, start |
//!              256 lines of P               44 lines of P                  still growing
//! ```

mod read;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use read::{RawEntries, RawReader};

use super::LogError;
use super::index::{Fields, FixedRecord, RecordFile};
use super::source::{ALL, Position, ProcessLines, RawLine, ReadStep};
use super::spool::format::STREAMS;
use crate::event::{RawEntry, Stream, Timestamp};
use crate::failpoint;
use crate::ids::ProcessId;

const INDEX: &str = "raw.idx";

/// A block is full with so many entries or bytes. Part of the format: a restart finds the end of the last
/// block by these limits.
const BLOCK_ENTRIES: u64 = 256;
const BLOCK_BYTES: u64 = 32 * 1024;

/// A record of `raw.idx`: where a run of one process's entries begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the block's first entry. A block without entries has the same number as the next block.
    pub first: u64,
    pub process: ProcessId,
    /// The position in the process's spool from which reading gives the block's first entry.
    pub start: Position,
    pub kind: BlockKind,
}

/// How a block's entries follow from the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Lines that follow the process's last ones.
    Lines,
    /// Lines after bytes that retention removed unread. The number before `first` belongs to no entry.
    AfterGap,
    /// The open lines, which ended with the process: up to two entries. `end`: where the streams ended.
    Tails { at: Timestamp, end: [u64; 2] },
}

impl Block {
    /// The number after the last entry of the block before this one.
    fn end_before(&self) -> u64 {
        self.first - u64::from(self.kind == BlockKind::AfterGap)
    }

    /// The tails' streams, in the order of their entries.
    fn tails(&self) -> impl Iterator<Item = Stream> + use<> {
        let (start, kind) = (self.start.open, self.kind);
        STREAMS.into_iter().filter(move |stream| {
            let at = *stream as usize;
            matches!(kind, BlockKind::Tails { end, .. } if end[at] > start[at])
        })
    }
}

impl FixedRecord for Block {
    const LEN: usize = 8 + 36 + 4 + 40 + 24;

    fn bytes(&self) -> Vec<u8> {
        let (kind, at, end) = match self.kind {
            BlockKind::Lines => (0_u32, 0, [0; 2]),
            BlockKind::AfterGap => (1, 0, [0; 2]),
            BlockKind::Tails { at, end } => (2, at.millis(), end),
        };
        let (first, process) = (self.first.to_le_bytes(), self.process.to_string());
        let Position { record, open: [out, err], read: [read_out, read_err] } = self.start;
        let numbers = [record, out, err, read_out, read_err, at.cast_unsigned(), end[0], end[1]];
        let numbers = numbers.map(u64::to_le_bytes).concat();
        [&first[..], process.as_bytes(), &kind.to_le_bytes(), &numbers].concat()
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let first = fields.u64()?;
        let process = str::from_utf8(&fields.take::<36>()?).ok()?.parse().ok()?;
        let kind = u32::from_le_bytes(fields.take()?);
        let mut pair = || Some([fields.u64()?, fields.u64()?]);
        let ([record, out], [err, read_out], [read_err, at], end) =
            (pair()?, pair()?, pair()?, pair()?);
        let at = Timestamp::from_millis(at.cast_signed());
        let kind = match kind {
            0 => BlockKind::Lines,
            1 => BlockKind::AfterGap,
            2 => BlockKind::Tails { at, end },
            _ => return None,
        };
        let start = Position { record, open: [out, err], read: [read_out, read_err] };
        Some(Self { first, process, start, kind })
    }
}

/// What the newest block has so far.
struct Growing {
    process: ProcessId,
    entries: u64,
    bytes: u64,
}

impl Growing {
    fn new(process: ProcessId) -> Self {
        Self { process, entries: 0, bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.entries >= BLOCK_ENTRIES || self.bytes >= BLOCK_BYTES
    }

    fn add(&mut self, line: &RawLine) {
        self.entries += 1;
        self.bytes += line.line.len;
    }
}

/// Numbers raw lines. The only writer of `raw.idx`.
pub struct RawWriter {
    index: RecordFile<Block>,
    dir: PathBuf,
    /// Number of the next raw entry.
    pub next: u64,
    growing: Option<Growing>,
}

impl RawWriter {
    /// Opens an attempt's index and finds how far the channel and its processes are. `positions` come from
    /// a checkpoint that was made when the index had `blocks` records, and are brought up to date. If the
    /// index has fewer records now, the caller has to [number the rest again](Self::number_again).
    pub fn open(
        dir: &Path,
        blocks: u64,
        positions: &mut BTreeMap<ProcessId, Position>,
    ) -> Result<Self, LogError> {
        let index = RecordFile::open(&dir.join(INDEX))?;
        let mut raw = Self { index, dir: dir.to_owned(), next: 0, growing: None };
        let mut newest = BTreeMap::new();
        let mut from = blocks.saturating_sub(1);
        let len = raw.blocks()?;
        if len < blocks {
            // A power cut took the end of the index: the positions of the checkpoint lie beyond it.
            for position in positions.values_mut() {
                *position = Position::default();
            }
            from = 0;
        }
        for number in from..len {
            newest.insert(raw.block(number)?.process, number);
        }
        for (process, number) in newest {
            let position = raw.position_after(number)?;
            positions.insert(process, position);
        }
        Ok(raw)
    }

    /// Records of the index: for a checkpoint.
    pub fn blocks(&self) -> io::Result<u64> {
        self.index.len()
    }

    /// A reader beside this writer. It stays valid when the writer is replaced.
    pub fn reader(&self) -> RawReader {
        RawReader::of(self.index.clone(), &self.dir)
    }

    /// Gives a line its number. `before` is the process's position before the line was read: a new block,
    /// which is put on file here, begins there.
    pub fn number(
        &mut self,
        process: ProcessId,
        before: Position,
        line: RawLine,
    ) -> io::Result<RawEntry> {
        let fits = |block: &Growing| block.process == process && !block.is_full();
        if !self.growing.as_ref().is_some_and(fits) {
            self.start_block(process, before, BlockKind::Lines)?;
        }
        if let Some(block) = &mut self.growing {
            block.add(&line);
        }
        self.next += 1;
        Ok(raw_entry(self.next - 1, process, line))
    }

    /// Retention removed bytes of the process before they were read, and reading continues at `after`. One
    /// number is skipped, so that readers see that something is missing.
    pub fn gap(&mut self, process: ProcessId, after: Position) -> io::Result<()> {
        self.next += 1;
        self.start_block(process, after, BlockKind::AfterGap)
    }

    /// Numbers all lines of a process again, after the end of the index was lost. They get the numbers they
    /// had, unless several processes wrote at the same time. Returns the process's position after them.
    pub fn number_again(
        &mut self,
        process: ProcessId,
        from: Position,
        has_ended: bool,
    ) -> Result<Position, LogError> {
        let mut lines = ProcessLines::at(&process_dir(&self.dir, process), from);
        loop {
            let before = lines.position();
            match lines.next_step(ALL)? {
                ReadStep::Line(line) => drop(self.number(process, before, line)?),
                ReadStep::Gap => self.gap(process, lines.position())?,
                ReadStep::Idle => break,
            }
        }
        if has_ended {
            self.end(process, &mut lines)?;
        }
        Ok(lines.position())
    }

    /// Ends the process's open lines, and numbers them; nothing where both streams ended with a `\n`.
    pub fn end(
        &mut self,
        process: ProcessId,
        lines: &mut ProcessLines,
    ) -> io::Result<Vec<RawEntry>> {
        if lines.wanted() == lines.open() {
            return Ok(Vec::new());
        }
        let at = lines.last_at()?.unwrap_or_else(Timestamp::now);
        let kind = BlockKind::Tails { at, end: lines.wanted() };
        self.start_block(process, lines.position(), kind)?;
        // A block of tails is complete: nothing is added to it.
        self.growing = None;
        let tails = lines.end().map(|(stream, line)| RawLine { at, stream, line });
        let entries: Vec<_> =
            (self.next..).zip(tails).map(|(index, line)| raw_entry(index, process, line)).collect();
        self.next += entries.len() as u64;
        Ok(entries)
    }

    /// Waits until the index is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.index.sync()
    }

    fn start_block(
        &mut self,
        process: ProcessId,
        start: Position,
        kind: BlockKind,
    ) -> io::Result<()> {
        self.index.push(&Block { first: self.next, process, start, kind })?;
        failpoint::hit("block", "begun");
        self.growing = Some(Growing::new(process));
        Ok(())
    }

    fn block(&self, number: u64) -> Result<Block, LogError> {
        self.index.get(number)?.ok_or_else(|| {
            LogError::Damaged(format!("record {number} of {}", self.dir.join(INDEX).display()))
        })
    }

    /// A block's process's position after the block. For the last block of the index this also finds `next`.
    fn position_after(&mut self, number: u64) -> Result<Position, LogError> {
        let block = self.block(number)?;
        let is_last = number + 1 == self.blocks()?;
        if let BlockKind::Tails { end, .. } = block.kind {
            if is_last {
                self.next = block.first + block.tails().count() as u64;
            }
            return Ok(Position { record: block.start.record, open: end, read: end });
        }
        let mut lines = ProcessLines::at(&process_dir(&self.dir, block.process), block.start);
        if is_last {
            self.resume_block(&block, &mut lines)?;
            return Ok(lines.position());
        }
        for _ in block.first..self.block(number + 1)?.end_before() {
            if !matches!(lines.next_step(ALL)?, ReadStep::Line(_)) {
                break;
            }
        }
        Ok(lines.position())
    }

    /// Reads the last block again from the spool, until it is full: its entries are not counted on file.
    fn resume_block(&mut self, block: &Block, lines: &mut ProcessLines) -> Result<(), LogError> {
        let mut growing = Growing::new(block.process);
        self.next = block.first;
        while !growing.is_full() {
            match lines.next_step(ALL)? {
                ReadStep::Line(line) => growing.add(&line),
                ReadStep::Idle if !lines.is_in_gap() => break,
                ReadStep::Idle | ReadStep::Gap => {
                    // Retention removed a part of the block, so how many numbers it used is unknown. Skip
                    // all numbers that it can have used.
                    self.next = block.first + BLOCK_ENTRIES;
                    return Ok(self.gap(block.process, lines.position())?);
                }
            }
        }
        self.next += growing.entries;
        self.growing = Some(growing);
        Ok(())
    }
}

fn raw_entry(entry_index: u64, process: ProcessId, line: RawLine) -> RawEntry {
    RawEntry {
        entry_index,
        at: line.at,
        execution_process_id: process,
        stream: line.stream,
        text: line.line.text,
        continued: line.line.continued,
        lossy: line.line.lossy,
    }
}

/// The folder of a process within its attempt's: the spool, and the shim's files.
pub fn process_dir(attempt_dir: &Path, process: ProcessId) -> PathBuf {
    attempt_dir.join(process.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_survives_its_encoding() {
        let start = Position { record: 9, open: [1 << 40, 7], read: [1 << 41, 8] };
        let tails = BlockKind::Tails { at: Timestamp::from_millis(-5), end: [3, u64::MAX] };
        for kind in [BlockKind::Lines, BlockKind::AfterGap, tails] {
            let block = Block { first: 77, process: ProcessId::new(), start, kind };
            let bytes = block.bytes();
            let read = Block::take(&mut Fields(&bytes));
            assert_eq!((bytes.len(), read), (Block::LEN, Some(block)));
        }
    }
}

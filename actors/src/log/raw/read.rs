//! Reads the raw channel beside its writer: by number, or process by process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Block, BlockKind, Growing, INDEX, process_dir, raw_entry};
use crate::event::{RawEntry, Stream};
use crate::ids::ProcessId;
use crate::log::index::RecordReader;
use crate::log::lines::{Line, LineCutter, MAX_LINE};
use crate::log::page::ReadError;
use crate::log::ring::Entry;
use crate::log::segments::SegmentRead;
use crate::log::source::{ALL, ProcessLines, RawLine, ReadStep};
use crate::log::spool::read::SpoolReader;

/// Reads the channel beside its writer.
#[derive(Clone)]
pub struct RawReader {
    pub(super) index: RecordReader<Block>,
    pub(super) dir: PathBuf,
}

impl RawReader {
    /// Reads the channel of an attempt's folder.
    pub fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { index: RecordReader::open(&dir.join(INDEX))?, dir: dir.to_owned() })
    }

    /// The block that holds `entry`, and the numbers of its entries below `below`.
    pub fn locate(&self, entry: u64, below: u64) -> Result<(Block, Range<u64>), ReadError> {
        let after = self.index.partition_point(|block| block.first <= entry)?;
        let number = after.checked_sub(1).ok_or(ReadError::Gone)?;
        let block = self.index.get(number)?.ok_or(ReadError::Gone)?;
        let end = self.index.get(after)?.map_or(below, |next| next.end_before().min(below));
        Ok((block, block.first..end))
    }

    /// A block's entries with these numbers, which must be its first ones.
    pub fn read(&self, block: &Block, entries: Range<u64>) -> Result<Vec<RawEntry>, ReadError> {
        let read = self.read_up_to(block, entries.end, ALL)?;
        let is_whole = entries.start + read.len() as u64 == entries.end;
        if is_whole { Ok(read) } else { Err(ReadError::Gone) }
    }

    /// A run of entries for a [page](crate::log::page::collect).
    pub fn block(&self, entry: u64, below: u64) -> Result<Vec<Entry>, ReadError> {
        let (block, entries) = self.locate(entry, below)?;
        let read = self.read(&block, entries)?;
        read.iter().map(|raw| Ok(Entry::new(raw.entry_index, raw)?)).collect()
    }

    /// The entries of one process; those not numbered yet must end before the offsets `until`.
    pub fn entries(&self, process: ProcessId, until: [u64; 2]) -> RawEntries {
        RawEntries { raw: self.clone(), process, until, block: 0, read: VecDeque::new() }
    }

    /// A block's entries below this number, as far as they end before the offsets `until`.
    fn read_up_to(
        &self,
        block: &Block,
        end: u64,
        until: [u64; 2],
    ) -> Result<Vec<RawEntry>, ReadError> {
        let (dir, numbers) = (process_dir(&self.dir, block.process), block.first..end);
        if let BlockKind::Tails { at, end } = block.kind {
            let mut spool = SpoolReader::open(&dir);
            let tail = |(index, stream)| {
                let at_stream = stream as usize;
                let (open, end) = (block.start.open[at_stream], end[at_stream]);
                let line = read_tail(&mut spool, stream, open, end)?;
                Ok(raw_entry(index, block.process, RawLine { at, stream, line }))
            };
            return numbers.zip(block.tails()).map(tail).collect();
        }
        let mut lines = ProcessLines::at(&dir, block.start);
        let mut growing = Growing::new(block.process);
        let mut read = Vec::new();
        for index in numbers {
            if growing.is_full() {
                break;
            }
            match lines.next_step(until)? {
                ReadStep::Line(line) => {
                    growing.add(&line);
                    read.push(raw_entry(index, block.process, line));
                }
                ReadStep::Idle => break,
                ReadStep::Gap => return Err(ReadError::Gone),
            }
        }
        Ok(read)
    }
}

/// An open line that was ended with its process: a stream's bytes between two offsets.
fn read_tail(
    spool: &mut SpoolReader,
    stream: Stream,
    open: u64,
    end: u64,
) -> Result<Line, ReadError> {
    let mut cutter = LineCutter::at(open);
    let mut buffer = vec![0; MAX_LINE + 2];
    loop {
        let wanted = cutter.wanted();
        let left = usize::try_from(end - wanted).unwrap_or(usize::MAX).min(buffer.len());
        if left == 0 {
            return cutter.end().ok_or(ReadError::Gone);
        }
        match spool.read_at(stream, wanted, &mut buffer[..left])? {
            SegmentRead::Bytes(read) => cutter.push(&buffer[..read]),
            SegmentRead::NotYet | SegmentRead::Gone { .. } => return Err(ReadError::Gone),
        }
    }
}

/// The entries of one process, in order.
pub struct RawEntries {
    raw: RawReader,
    process: ProcessId,
    until: [u64; 2],
    /// Number of the block that is read next.
    block: u64,
    read: VecDeque<RawEntry>,
}

impl RawEntries {
    /// The next one, if its number is below this.
    pub fn next_below(&mut self, below: u64) -> Result<Option<RawEntry>, ReadError> {
        while self.read.is_empty() {
            let Some(block) = self.raw.index.get(self.block)? else { return Ok(None) };
            if block.process == self.process {
                if block.first >= below {
                    return Ok(None);
                }
                self.read = match self.raw.index.get(self.block + 1)? {
                    Some(next) => self.raw.read(&block, block.first..next.end_before())?,
                    None => self.raw.read_up_to(&block, u64::MAX, self.until)?,
                }
                .into();
            }
            self.block += 1;
        }
        Ok(self.read.pop_front_if(|entry| entry.entry_index < below))
    }
}

/// Finds the first entry from which on all are held, to the precision of a block.
#[derive(Default)]
pub struct Floors(BTreeMap<ProcessId, Floor>);

/// What was found for one process.
#[derive(Clone, Copy, Default)]
struct Floor {
    /// The oldest offsets held when it was found; zero before that.
    oldest: [u64; 2],
    /// All blocks of the process from this one on are held.
    block: u64,
}

impl Floors {
    /// The number of the oldest entry held; `next` when none is.
    pub fn oldest(
        &mut self,
        raw: &RawReader,
        processes: &BTreeSet<ProcessId>,
        next: u64,
    ) -> io::Result<u64> {
        let mut newest = None;
        for process in processes {
            let oldest = SpoolReader::open(&process_dir(&raw.dir, *process)).oldest()?;
            if oldest != [0, 0] {
                let floor = self.0.entry(*process).or_default();
                if floor.oldest != oldest {
                    floor.look_for(&raw.index, *process, oldest)?;
                }
                newest = newest.max(Some(floor.block));
            }
        }
        let Some(newest) = newest else { return Ok(0) };
        Ok(raw.index.get(newest)?.map_or(next, |block| block.first.min(next)))
    }
}

impl Floor {
    /// Goes on from the block found last. Without a held block, all after the last one is held.
    fn look_for(
        &mut self,
        index: &RecordReader<Block>,
        process: ProcessId,
        oldest: [u64; 2],
    ) -> io::Result<()> {
        let mut number = self.block;
        while let Some(block) = index.get(number)? {
            if block.process == process {
                self.block = number;
                if block.start.open[0] >= oldest[0] && block.start.open[1] >= oldest[1] {
                    self.oldest = oldest;
                    return Ok(());
                }
                self.block += 1;
            }
            number += 1;
        }
        Ok(())
    }
}

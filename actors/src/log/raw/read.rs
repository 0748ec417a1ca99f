//! Reads the raw channel beside its writer: by number, or process by process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Block, BlockKind, Growing, INDEX, process_dir, raw_entry};
use crate::blocking::lock;
use crate::event::{RawEntry, Stream};
use crate::ids::ProcessId;
use crate::log::LogError;
use crate::log::index::RecordFile;
use crate::log::lines::{Line, LineCutter, MAX_LINE};
use crate::log::ring::Entry;
use crate::log::segments::SegmentRead;
use crate::log::source::{ALL, ProcessLines, RawLine, ReadStep};
use crate::log::spool::read::SpoolReader;

/// Reads raw entries by number: the index says where, the spool has the text. Clones share the index file.
#[derive(Clone)]
pub struct RawReader {
    index: RecordFile<Block>,
    dir: PathBuf,
    /// The process that was read last, and its spool, for the next page. A long spool has many segments: to
    /// find one takes longer than to read it.
    last: Arc<Mutex<Option<(ProcessId, SpoolReader)>>>,
}

impl RawReader {
    /// The channel in an attempt's folder; `NotFound` before its first entry.
    pub fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self::of(RecordFile::open_for_reading(&dir.join(INDEX))?, dir))
    }

    /// A reader over an index that the writer has opened.
    pub(super) fn of(index: RecordFile<Block>, dir: &Path) -> Self {
        Self { index, dir: dir.to_owned(), last: Arc::default() }
    }

    /// The block that holds `entry`, and the numbers of its entries below `below`.
    ///
    /// # Errors
    /// `Outrun` if the index has no block for it.
    pub fn locate(&self, entry: u64, below: u64) -> Result<(Block, Range<u64>), LogError> {
        let after = self.index.partition_point(|block| block.first <= entry)?;
        let number = after.checked_sub(1).ok_or(LogError::Outrun)?;
        let block = self.index.get(number)?.ok_or(LogError::Outrun)?;
        let end = self.index.get(after)?.map_or(below, |next| next.end_before().min(below));
        Ok((block, block.first..end))
    }

    /// A block's entries with these numbers, which must begin at its first one.
    ///
    /// # Errors
    /// `Outrun` if the spool does not hold all of them any more.
    pub fn read(&self, block: &Block, entries: Range<u64>) -> Result<Vec<RawEntry>, LogError> {
        let read = self.read_up_to(block, entries.end, ALL)?;
        let is_whole = entries.start + read.len() as u64 == entries.end;
        if is_whole { Ok(read) } else { Err(LogError::Outrun) }
    }

    /// The `wanted` entries of the block that holds `entry`.
    pub fn block(&self, entry: u64, wanted: &Range<u64>) -> Result<Vec<Entry>, LogError> {
        let (block, entries) = self.locate(entry, wanted.end)?;
        let read = self.read(&block, entries)?;
        let read = read.iter().filter(|raw| wanted.contains(&raw.entry_index));
        Ok(read.map(|raw| Entry::new(raw.entry_index, raw)).collect::<io::Result<_>>()?)
    }

    /// The entries of one process from its first block on. Entries of the last block must end before the
    /// offsets `until`, because the index does not say where that block ends.
    pub fn entries(&self, process: ProcessId, until: [u64; 2]) -> RawEntries {
        RawEntries { raw: self.clone(), process, until, block: 0, read: VecDeque::new() }
    }

    /// The number of the oldest entry from which on all are held, to the precision of a block; `next` when
    /// none is held. `held` keeps, for each process, the first block that is held (or the one after its
    /// last), so that the next search begins there.
    pub fn oldest(
        &self,
        held: &mut BTreeMap<ProcessId, u64>,
        processes: &BTreeSet<ProcessId>,
        next: u64,
    ) -> io::Result<u64> {
        let mut newest = None;
        for process in processes {
            let oldest = SpoolReader::open(&process_dir(&self.dir, *process)).oldest()?;
            if oldest == [0, 0] {
                continue;
            }
            let first = held.entry(*process).or_default();
            let mut number = *first;
            while let Some(block) = self.index.get(number)? {
                if block.process == *process {
                    *first = number;
                    if block.start.open[0] >= oldest[0] && block.start.open[1] >= oldest[1] {
                        break;
                    }
                    *first += 1;
                }
                number += 1;
            }
            newest = newest.max(Some(*first));
        }
        let Some(newest) = newest else {
            return Ok(self.begin()?.unwrap_or(next).min(next));
        };
        Ok(self.index.get(newest)?.map_or(next, |block| block.first.min(next)))
    }

    /// The number that the channel begins with; not 0 where another host had the attempt before. `None`
    /// before the first entry.
    pub fn begin(&self) -> io::Result<Option<u64>> {
        Ok(self.index.get(0)?.map(|block| block.end_before()))
    }

    /// A block's entries below this number, as far as they end before the offsets `until`.
    fn read_up_to(
        &self,
        block: &Block,
        end: u64,
        until: [u64; 2],
    ) -> Result<Vec<RawEntry>, LogError> {
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
        let last = lock(&self.last).take().filter(|(process, _)| *process == block.process);
        let spool = last.map_or_else(|| SpoolReader::open(&dir), |(_, spool)| spool);
        let mut lines = ProcessLines::over(spool, block.start);
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
                ReadStep::Gap => return Err(LogError::Outrun),
            }
        }
        *lock(&self.last) = Some((block.process, lines.into_spool()));
        Ok(read)
    }
}

/// A line without its `\n` that was ended with its process: a stream's bytes between two offsets.
fn read_tail(
    spool: &mut SpoolReader,
    stream: Stream,
    open: u64,
    end: u64,
) -> Result<Line, LogError> {
    let mut cutter = LineCutter::at(open);
    let mut buffer = vec![0; MAX_LINE + 2];
    loop {
        let wanted = cutter.wanted();
        let left = usize::try_from(end - wanted).unwrap_or(usize::MAX).min(buffer.len());
        if left == 0 {
            return cutter.end().ok_or(LogError::Outrun);
        }
        match spool.read_at(stream, wanted, &mut buffer[..left])? {
            SegmentRead::Bytes(read) => cutter.push(&buffer[..read]),
            SegmentRead::NotYet | SegmentRead::Gone { .. } => return Err(LogError::Outrun),
        }
    }
}

/// The raw entries of one process, in order, as the replay needs them.
pub struct RawEntries {
    raw: RawReader,
    process: ProcessId,
    until: [u64; 2],
    block: u64,
    read: VecDeque<RawEntry>,
}

impl RawEntries {
    /// The next entry, if its number is below `below`; `None`: there is none below.
    ///
    /// # Errors
    /// `Outrun` where retention removed the text.
    pub fn next_below(&mut self, below: u64) -> Result<Option<RawEntry>, LogError> {
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

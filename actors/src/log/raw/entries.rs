//! The raw channel read process by process, from the beginning, without a writer.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use super::super::index::RecordReader;
use super::super::page::ReadError;
use super::super::source::{ProcessLines, ReadStep};
use super::{Block, BlockKind, Growing, INDEX, RawReader, process_dir, raw_entry};
use crate::event::RawEntry;
use crate::ids::ProcessId;

impl RawReader {
    /// Reads the channel of an attempt's folder.
    pub fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { index: RecordReader::open(&dir.join(INDEX))?, dir: dir.to_owned() })
    }

    /// The entries of one process, from its first; of what is not numbered yet
    /// those that end before the offsets `until` (stdout's, stderr's).
    pub fn entries(&self, process: ProcessId, until: [u64; 2]) -> RawEntries {
        RawEntries { raw: self.clone(), process, until, block: 0, read: VecDeque::new() }
    }

    /// A block's entries below this number; of the last block as many as there are.
    fn read_to_end(
        &self,
        block: &Block,
        end: u64,
        until: [u64; 2],
    ) -> Result<Vec<RawEntry>, ReadError> {
        if end != u64::MAX {
            return self.read(block, block.first..end);
        }
        if matches!(block.kind, BlockKind::Tails { .. }) {
            return self.read(block, block.first..block.first + block.tails().count() as u64);
        }
        let mut lines = ProcessLines::at(&process_dir(&self.dir, block.process), block.start);
        let mut growing = Growing { process: block.process, entries: 0, bytes: 0 };
        let mut read = Vec::new();
        while !growing.is_full() {
            match lines.next_step(until)? {
                ReadStep::Line(line) => {
                    let index = block.first + growing.entries;
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
                let next = self.raw.index.get(self.block + 1)?.map(|next| next.end_before());
                let end = next.unwrap_or(u64::MAX);
                self.read = self.raw.read_to_end(&block, end, self.until)?.into();
            }
            self.block += 1;
        }
        let is_below = self.read.front().is_some_and(|entry| entry.entry_index < below);
        Ok(if is_below { self.read.pop_front() } else { None })
    }
}

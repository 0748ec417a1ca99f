//! Reads the normalized channel beside its writer: by number, or from its beginning.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Mark, Origin, Stored, parse, series};
use crate::blocking::lock;
use crate::log::LogError;
use crate::log::index::RecordFile;
use crate::log::line_reader::LineReader;
use crate::log::ring::Entry;
use crate::log::segments::Segments;

/// Reads the channel from its beginning, entry by entry, beside its writer.
pub struct OnFile(LineReader);

impl OnFile {
    /// Begins at the oldest entry that retention has left.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let oldest = series(dir).starts()?.first().copied().unwrap_or(0);
        Ok(Self(LineReader::new(series(dir), oldest)))
    }

    /// The next entry; `None` after the last that is whole.
    ///
    /// # Errors
    /// `Damaged` for a line that can't be parsed, `Outrun` where retention removed the entries.
    pub fn next_entry(&mut self) -> Result<Option<(Stored, Origin, Entry)>, LogError> {
        let Some(line) = self.0.next_line()? else { return Ok(None) };
        let damaged = || LogError::Damaged("an entry can't be read".to_owned());
        let (stored, origin, json) = parse(line).ok_or_else(damaged)?;
        Ok(Some((stored, origin, Entry::from_json(stored.entry_index, json.to_owned())?)))
    }
}

/// Reads entries by number, beside the writer. Clones share the index file.
#[derive(Clone)]
pub struct NormalizedReader {
    pub(super) dir: PathBuf,
    pub(super) index: RecordFile<Mark>,
    /// The compressed segment that was read last, with its decompressed frame, for the next page.
    pub(super) last: Arc<Mutex<Option<Segments>>>,
}

impl NormalizedReader {
    /// The number of the oldest entry held; `next` when none is held.
    pub fn oldest(&self, next: u64) -> io::Result<u64> {
        Ok(self.oldest_mark()?.map_or(next, |mark| mark.entry.min(next)))
    }

    /// The oldest entry held, and where it begins; `None` where the index has no mark for the oldest
    /// segment.
    pub fn oldest_mark(&self) -> io::Result<Option<Mark>> {
        let offset = Segments::new(series(&self.dir)).oldest()?;
        if offset == 0 {
            return Ok(Some(Mark::default()));
        }
        self.index.get(self.index.partition_point(|mark| mark.offset < offset)?)
    }

    /// The lines from an offset on, as they are on file: JSON, a tab, and the origin.
    pub fn lines(&self, offset: u64) -> LineReader {
        LineReader::new(series(&self.dir), offset)
    }

    /// The `wanted` entries between the two marks of the index around `entry`.
    ///
    /// # Errors
    /// `Outrun` if retention removed them meanwhile.
    pub fn block(&self, entry: u64, wanted: &Range<u64>) -> Result<Vec<Entry>, LogError> {
        let after = self.index.partition_point(|mark| mark.entry <= entry)?;
        let number = after.checked_sub(1).ok_or(LogError::Outrun)?;
        let mark = self.index.get(number)?.ok_or(LogError::Outrun)?;
        let end = self.index.get(after)?.map_or(wanted.end, |next| next.entry.min(wanted.end));
        let segments = lock(&self.last).take();
        let segments = segments.unwrap_or_else(|| Segments::new(series(&self.dir)));
        let mut lines = LineReader::over(segments, mark.offset);
        let mut entries = Vec::new();
        for index in mark.entry..end {
            let line = lines.next_line()?.ok_or(LogError::Outrun)?;
            if index < wanted.start {
                continue;
            }
            let json = str::from_utf8(line).ok().and_then(|line| line.rsplit_once('\t'));
            let damaged = || LogError::Damaged(format!("normalized entry {index}"));
            let (json, _) = json.ok_or_else(damaged)?;
            entries.push(Entry::from_json(index, json.to_owned()).map_err(|_| damaged())?);
        }
        *lock(&self.last) = Some(lines.into_segments()).filter(Segments::is_sealed);
        Ok(entries)
    }
}

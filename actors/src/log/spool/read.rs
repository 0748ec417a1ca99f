//! Reads a spool beside its writer: records by number, bytes by offset. A folder or file that does not exist
//! yet counts as empty.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::format::{INDEX, Record, STREAMS, series};
use crate::blocking::if_there;
use crate::event::Stream;
use crate::log::index::RecordFile;
use crate::log::segments::{SegmentRead, Segments};

/// Reads the spool of one process. It opens files when they are needed, and keeps the last ones open.
pub struct SpoolReader {
    dir: PathBuf,
    index: Option<RecordFile<Record>>,
    streams: [Segments; 2],
}

impl SpoolReader {
    /// Opens no file, so it can't fail: `dir` is the process's folder.
    pub fn open(dir: &Path) -> Self {
        let streams = STREAMS.map(|stream| Segments::new(series(dir, stream)));
        Self { dir: dir.to_owned(), index: None, streams }
    }

    /// The record with this number, from 0; `None` when it is missing, torn or damaged.
    pub fn record(&mut self, number: u64) -> io::Result<Option<Record>> {
        self.index()?.map_or(Ok(None), |index| index.get(number))
    }

    /// How many whole records there are.
    pub fn records(&mut self) -> io::Result<u64> {
        self.index()?.map_or(Ok(0), RecordFile::len)
    }

    /// Bytes of the index; 0 without one. Opens no file: a change shows that there are new records.
    pub fn length(&self) -> io::Result<u64> {
        let index = if_there(fs::metadata(self.dir.join(INDEX)))?;
        Ok(index.map_or(0, |index| index.len()))
    }

    /// The newest record that is whole; torn or damaged ones at the end are passed over.
    pub fn last_record(&mut self) -> io::Result<Option<Record>> {
        let mut number = self.records()?;
        while let Some(before) = number.checked_sub(1) {
            if let Some(record) = self.record(before)? {
                return Ok(Some(record));
            }
            number = before;
        }
        Ok(None)
    }

    /// Reads bytes of a stream at an offset: at most one buffer full, never across the end of a segment.
    pub fn read_at(
        &mut self,
        stream: Stream,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<SegmentRead> {
        self.streams[stream as usize].read_at(offset, buffer)
    }

    /// The first offset that is still held of stdout and of stderr; 0 when nothing was ever written.
    pub fn oldest(&self) -> io::Result<[u64; 2]> {
        Ok([self.streams[0].oldest()?, self.streams[1].oldest()?])
    }

    fn index(&mut self) -> io::Result<Option<&RecordFile<Record>>> {
        if self.index.is_none() {
            self.index = if_there(RecordFile::open_for_reading(&self.dir.join(INDEX)))?;
        }
        Ok(self.index.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::format::{FixedRecord, RECORD_LEN, segment_path};
    use super::*;

    fn record(number: u64) -> Record {
        Record { at_ms: 7, stream: Stream::Stdout, offset: number * 10, len: 10 }
    }

    #[test]
    fn a_torn_or_damaged_record_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let mut reader = SpoolReader::open(dir.path());
        assert_eq!(reader.record(0).unwrap(), None);
        let bytes: Vec<u8> = (0..300).flat_map(|number| record(number).encode()).collect();
        for torn in [1, 31, 33, 5000, bytes.len() - 1] {
            fs::write(dir.path().join(INDEX), &bytes[..torn]).unwrap();
            let whole = (torn / RECORD_LEN) as u64;
            assert_eq!(reader.record(whole).unwrap(), None);
            assert_eq!(reader.last_record().unwrap(), whole.checked_sub(1).map(record));
        }
        fs::write(dir.path().join(INDEX), &bytes).unwrap();
        for number in [299, 0, 128, 127, 255] {
            assert_eq!(reader.record(number).unwrap(), Some(record(number)));
        }
        fs::write(dir.path().join(INDEX), [&bytes[..320], &[0; 32]].concat()).unwrap();
        assert_eq!(SpoolReader::open(dir.path()).last_record().unwrap(), Some(record(9)));
    }

    #[test]
    fn bytes_are_read_across_segments_and_what_is_gone_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let mut reader = SpoolReader::open(dir.path());
        let mut buffer = [0; 16];
        let mut read = |reader: &mut SpoolReader, offset| {
            let found = reader.read_at(Stream::Stderr, offset, &mut buffer).unwrap();
            (found, buffer)
        };
        assert_eq!(read(&mut reader, 0).0, SegmentRead::NotYet);
        for (start, bytes) in [(0, "abc"), (3, "defg"), (7, "hi")] {
            fs::write(segment_path(dir.path(), Stream::Stderr, start), bytes).unwrap();
        }
        let (found, bytes) = read(&mut reader, 1);
        assert_eq!((found, &bytes[..2]), (SegmentRead::Bytes(2), &b"bc"[..]));
        let (found, bytes) = read(&mut reader, 3);
        assert_eq!((found, &bytes[..4]), (SegmentRead::Bytes(4), &b"defg"[..]));
        assert_eq!(read(&mut reader, 9).0, SegmentRead::NotYet);
        fs::remove_file(segment_path(dir.path(), Stream::Stderr, 0)).unwrap();
        assert_eq!(read(&mut reader, 0).0, SegmentRead::Gone { resume: 3 });
        assert_eq!(reader.oldest().unwrap(), [0, 3]);
        fs::remove_file(segment_path(dir.path(), Stream::Stderr, 3)).unwrap();
        assert_eq!(read(&mut reader, 2).0, SegmentRead::Gone { resume: 7 });
        let (found, bytes) = read(&mut reader, 8);
        assert_eq!((found, &bytes[..1]), (SegmentRead::Bytes(1), &b"i"[..]));
    }

    #[test]
    fn a_segment_that_ends_early_leaves_a_gap_not_a_standstill() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(segment_path(dir.path(), Stream::Stdout, 0), "abc").unwrap();
        fs::write(segment_path(dir.path(), Stream::Stdout, 9), "xyz").unwrap();
        let found = SpoolReader::open(dir.path()).read_at(Stream::Stdout, 3, &mut [0; 8]);
        assert_eq!(found.unwrap(), SegmentRead::Gone { resume: 9 });
    }
}

//! Reading a spool while it is written: records by number, bytes by offset.
//! Reads files only; a folder or file that isn't there yet is an empty one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::{INDEX, RECORD_LEN, Record, segment_path, segments};
use crate::event::Stream;
use crate::log::segments::{SegmentRead, Segments, Series};

/// Records read from the index at once.
const RECORDS_AT_ONCE: usize = 128;

/// A cursor's view of one process's spool.
pub struct SpoolReader {
    dir: PathBuf,
    index: Option<File>,
    /// Records already read, from number `first` on.
    records: Vec<Record>,
    first: u64,
    stdout: Segments<SpoolStream>,
    stderr: Segments<SpoolStream>,
}

struct SpoolStream {
    dir: PathBuf,
    stream: Stream,
}

impl Series for SpoolStream {
    fn path(&self, start: u64) -> PathBuf {
        segment_path(&self.dir, self.stream, start)
    }

    fn starts(&self) -> io::Result<Vec<u64>> {
        segments(&self.dir, self.stream)
    }
}

impl SpoolReader {
    /// A reader of the spool in `dir`; opens files when they are first needed.
    #[must_use]
    pub fn open(dir: &Path) -> Self {
        let stream = |stream| Segments::new(SpoolStream { dir: dir.to_owned(), stream });
        Self {
            dir: dir.to_owned(),
            index: None,
            records: Vec::new(),
            first: 0,
            stdout: stream(Stream::Stdout),
            stderr: stream(Stream::Stderr),
        }
    }

    /// The record with this number, from 0; `None` when it isn't there yet,
    /// which is also what a torn or damaged one means.
    pub fn record(&mut self, number: u64) -> io::Result<Option<Record>> {
        if let Some(record) = self.cached(number) {
            return Ok(Some(record));
        }
        let Some(index) = self.index()? else { return Ok(None) };
        let mut bytes = [0; RECORDS_AT_ONCE * RECORD_LEN];
        let read = index.read_at(&mut bytes, number * RECORD_LEN as u64)?;
        let (whole, _torn) = bytes[..read].as_chunks::<RECORD_LEN>();
        self.records = whole.iter().map_while(Record::decode).collect();
        self.first = number;
        Ok(self.cached(number))
    }

    /// How many records there are, torn or damaged ones counted.
    pub fn records(&mut self) -> io::Result<u64> {
        let Some(index) = self.index()? else { return Ok(0) };
        Ok(index.metadata()?.len() / RECORD_LEN as u64)
    }

    /// The newest record there is.
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

    /// Reads a stream's bytes at `offset`, at most one buffer full.
    pub fn read_at(
        &mut self,
        stream: Stream,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<SegmentRead> {
        match stream {
            Stream::Stdout => self.stdout.read_at(offset, buffer),
            Stream::Stderr => self.stderr.read_at(offset, buffer),
        }
    }

    /// The first offset still held of stdout and of stderr.
    pub fn oldest(&self) -> io::Result<[u64; 2]> {
        Ok([self.stdout.oldest()?, self.stderr.oldest()?])
    }

    fn cached(&self, number: u64) -> Option<Record> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.records.get(at).copied()
    }

    fn index(&mut self) -> io::Result<Option<&File>> {
        if self.index.is_none() {
            match File::open(self.dir.join(INDEX)) {
                Ok(file) => self.index = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.index.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn bytes_are_read_across_segments_and_what_is_gone_is_told() {
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

//! Append-only files of fixed records, each followed by its CRC-32: the sparse indexes and
//! the spool's records. Opening a file for writing cuts a torn or damaged end off; readers
//! see a damaged record as a missing one.

use std::fs::File;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// A value of a fixed length on disk, little endian, followed by a CRC-32 of its bytes.
pub trait FixedRecord: Sized {
    /// Bytes of the value, without the checksum.
    const LEN: usize;
    /// Exactly [`LEN`](Self::LEN) bytes.
    fn bytes(&self) -> Vec<u8>;
    /// Reads the value from its bytes; `None` where they are no valid value.
    fn take(fields: &mut Fields<'_>) -> Option<Self>;

    /// The bytes on disk: the value and its checksum.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.bytes();
        let check = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The value; `None` for a wrong length, a wrong checksum, or bytes that are no valid value.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (value, check) = bytes.split_at_checked(Self::LEN)?;
        let is_whole = crc32fast::hash(value).to_le_bytes() == check;
        is_whole.then(|| Self::take(&mut Fields(value))).flatten()
    }
}

/// The binary search ends when so many records are left, and reads these in one go: fewer reads than
/// halving down to one.
const AT_ONCE: u64 = 64;

/// Bytes from one record's start to the next: the value and its CRC-32.
const fn stride<T: FixedRecord>() -> u64 {
    T::LEN as u64 + 4
}

/// An append-only file of records. It has one writer at a time; clones share the file and read beside it.
pub struct RecordFile<T> {
    file: Arc<File>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for RecordFile<T> {
    fn clone(&self) -> Self {
        Self { file: Arc::clone(&self.file), kind: PhantomData }
    }
}

impl<T: FixedRecord> RecordFile<T> {
    /// Opens or creates the file for writing. Cuts off records at the end that are torn or damaged, which a
    /// power cut can leave.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).append(true).create(true).mode(0o600).open(path)?;
        let records = Self { file: Arc::new(file), kind: PhantomData };
        let mut len = records.len()?;
        while len > 0 && records.get(len - 1)?.is_none() {
            len -= 1;
        }
        records.truncate(len)?;
        Ok(records)
    }

    /// Opens an existing file; `NotFound` without one. Records that are appended later are seen, too.
    pub fn open_for_reading(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Arc::new(File::open(path)?), kind: PhantomData })
    }

    /// Appends a record; readers see it when this returns.
    pub fn push(&self, record: &T) -> io::Result<()> {
        self.push_all(std::slice::from_ref(record))
    }

    /// Appends records by one write: a kill leaves all of them, none, or a torn end that `open` cuts off.
    pub fn push_all(&self, records: &[T]) -> io::Result<()> {
        let bytes: Vec<u8> = records.iter().flat_map(T::encode).collect();
        (&*self.file).write_all(&bytes)
    }

    /// Keeps the first `len` records.
    pub fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len * stride::<T>())
    }

    /// The last record; `None` for an empty file and for a damaged last record.
    pub fn last(&self) -> io::Result<Option<T>> {
        self.len()?.checked_sub(1).map_or(Ok(None), |last| self.get(last))
    }

    /// Waits until the records are on the disk (fdatasync(2)).
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// How many whole records there are; a torn one does not count.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len() / stride::<T>())
    }

    /// The record with this number, from 0; `None` beyond the end and for a damaged one.
    pub fn get(&self, number: u64) -> io::Result<Option<T>> {
        let mut bytes = vec![0; T::LEN + 4];
        match self.file.read_exact_at(&mut bytes, number * stride::<T>()) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => read.map(|()| T::decode(&bytes)),
        }
    }

    /// The number of the first record for which `is_before` is false, if it is true for all earlier ones.
    /// A damaged record counts as one for which it is false.
    pub fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.len()?);
        while high - low > AT_ONCE {
            let middle = low + (high - low) / 2;
            if self.get(middle)?.is_some_and(|record| is_before(&record)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let stride = T::LEN + 4;
        let mut bytes = vec![0; usize::try_from(high - low).map_err(io::Error::other)? * stride];
        // The file may have become shorter since its length was read: its writer cut the end off.
        let read = self.file.read_at(&mut bytes, low * stride as u64)?;
        bytes.truncate(read);
        let records: Vec<&[u8]> = bytes.chunks_exact(stride).collect();
        let is_before = |bytes: &&[u8]| T::decode(bytes).is_some_and(|record| is_before(&record));
        Ok(low + records.partition_point(is_before) as u64)
    }
}

/// The bytes of a value that are still to be read, field by field.
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes; `None` when fewer are left.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    /// The next 8 bytes as a number, little endian.
    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Number(u64);

    impl FixedRecord for Number {
        const LEN: usize = 8;
        fn bytes(&self) -> Vec<u8> {
            self.0.to_le_bytes().to_vec()
        }
        fn take(fields: &mut Fields<'_>) -> Option<Self> {
            fields.u64().map(Self)
        }
    }

    #[test]
    fn an_end_torn_anywhere_is_cut_and_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        let numbers = RecordFile::open(&path).unwrap();
        (0..3).for_each(|number| numbers.push(&Number(number)).unwrap());
        let bytes = std::fs::read(&path).unwrap();
        for torn in 0..bytes.len() {
            std::fs::write(&path, &bytes[..torn]).unwrap();
            let numbers = RecordFile::<Number>::open(&path).unwrap();
            assert_eq!(numbers.len().unwrap(), torn as u64 / 12);
            for number in numbers.len().unwrap()..3 {
                numbers.push(&Number(number)).unwrap();
            }
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn a_damaged_end_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        let numbers = RecordFile::open(&path).unwrap();
        (0..3).for_each(|number| numbers.push(&Number(number)).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.resize(72, 0);
        std::fs::write(&path, &bytes).unwrap();
        let numbers = RecordFile::<Number>::open(&path).unwrap();
        assert_eq!((numbers.len().unwrap(), numbers.last().unwrap()), (3, Some(Number(2))));
    }

    #[test]
    fn the_search_finds_the_first_record_that_is_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let numbers = RecordFile::open(&dir.path().join("numbers")).unwrap();
        (0..100).for_each(|number| numbers.push(&Number(number * 2)).unwrap());
        for wanted in 0..=200 {
            let found = numbers.partition_point(|number| number.0 < wanted).unwrap();
            assert_eq!(found, wanted.div_ceil(2).min(100));
        }
    }
}

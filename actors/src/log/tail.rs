//! The end of a process's output, as text: both streams, in the order of arrival. Blocks: it reads the
//! spool.

use std::io;
use std::path::Path;

use super::segments::SegmentRead;
use super::spool::format::Record;
use super::spool::read::SpoolReader;

/// The last bytes that a process wrote, for messages about a script or a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Each byte sequence that is not UTF-8 is U+FFFD.
    pub text: String,
    /// The process wrote more than this.
    pub is_cut: bool,
}

/// At most `max_bytes` from the end of a process's output; less where retention removed bytes. `dir` is the
/// process's folder. Empty for one without a spool.
pub fn tail(dir: &Path, max_bytes: usize) -> io::Result<Tail> {
    let mut spool = SpoolReader::open(dir);
    let mut records: Vec<Record> = Vec::new();
    let (mut number, mut left, mut is_cut) = (spool.records()?, max_bytes, false);
    while left > 0
        && let Some(before) = number.checked_sub(1)
    {
        number = before;
        if let Some(record) = spool.record(number)? {
            // Of a record that is longer, its end: it may span segments.
            let len = u32::try_from(left).unwrap_or(u32::MAX).min(record.len);
            is_cut |= len < record.len;
            left -= len as usize;
            records.push(Record { offset: record.end() - u64::from(len), len, ..record });
        }
    }
    is_cut |= number > 0;
    let mut bytes = Vec::new();
    for record in records.into_iter().rev() {
        let (mut at, end) = (record.offset, record.end());
        while at < end {
            let mut piece = vec![0; usize::try_from(end - at).map_err(io::Error::other)?];
            let read = spool.read_at(record.stream, at, &mut piece)?;
            is_cut |= !matches!(read, SegmentRead::Bytes(_));
            match read {
                SegmentRead::Bytes(count) => {
                    bytes.extend_from_slice(&piece[..count]);
                    at += count as u64;
                }
                SegmentRead::Gone { resume } => at = resume,
                SegmentRead::NotYet => break,
            }
        }
    }
    Ok(Tail { text: String::from_utf8_lossy(&bytes).into_owned(), is_cut })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::spool::format::{FixedRecord, INDEX, segment_path};
    use super::*;
    use crate::event::Stream;

    #[test]
    fn both_streams_are_shown_in_the_order_in_which_they_came_in() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(tail(dir, 100).unwrap(), Tail::default());
        fs::write(segment_path(dir, Stream::Stdout, 0), "one\nthree\n").unwrap();
        fs::write(segment_path(dir, Stream::Stderr, 0), "two\n").unwrap();
        let record = |stream, offset, len| Record { at_ms: 1, stream, offset, len }.encode();
        let records = [
            record(Stream::Stdout, 0, 4),
            record(Stream::Stderr, 0, 4),
            record(Stream::Stdout, 4, 6),
        ];
        fs::write(dir.join(INDEX), records.concat()).unwrap();
        let expect_tail = |max, text: &str, is_cut| {
            assert_eq!(tail(dir, max).unwrap(), Tail { text: text.to_owned(), is_cut });
        };
        expect_tail(100, "one\ntwo\nthree\n", false);
        expect_tail(14, "one\ntwo\nthree\n", false);
        expect_tail(10, "two\nthree\n", true);
        expect_tail(8, "o\nthree\n", true);
        expect_tail(0, "", true);
    }

    #[test]
    fn what_retention_removed_is_cut_and_of_a_long_record_only_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let record = |offset, len| Record { at_ms: 1, stream: Stream::Stdout, offset, len };
        let long: u32 = 3 << 30;
        fs::write(segment_path(dir, Stream::Stdout, u64::from(long) - 4), "two\n").unwrap();
        fs::write(segment_path(dir, Stream::Stdout, u64::from(long)), "three\n").unwrap();
        let expect_tail = |records: &[Record], max, text: &str, is_cut| {
            let records: Vec<u8> = records.iter().flat_map(Record::encode).collect();
            fs::write(dir.join(INDEX), records).unwrap();
            assert_eq!(tail(dir, max).unwrap(), Tail { text: text.to_owned(), is_cut });
        };
        let last = record(u64::from(long), 6);
        expect_tail(&[record(0, long), last], 10, "two\nthree\n", true);
        expect_tail(&[record(0, long), last], 8, "o\nthree\n", true);
        expect_tail(&[record(u64::from(long) - 8, 4), last], 100, "three\n", true);
        expect_tail(&[record(u64::from(long) - 8, 14)], 100, "two\nthree\n", true);
        expect_tail(&[record(u64::from(long) - 4, 10)], 10, "two\nthree\n", false);
        expect_tail(&[record(u64::from(long) - 4, 10)], 8, "o\nthree\n", true);
    }
}

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
    /// The process wrote more before this.
    pub is_cut: bool,
}

/// At most `max_bytes` from the end of a process's output; less where retention removed bytes. `dir` is the
/// process's folder. Empty for one without a spool.
pub fn tail(dir: &Path, max_bytes: usize) -> io::Result<Tail> {
    let mut spool = SpoolReader::open(dir);
    let mut records: Vec<Record> = Vec::new();
    let (mut number, mut held) = (spool.records()?, 0);
    while held < max_bytes
        && let Some(before) = number.checked_sub(1)
    {
        number = before;
        if let Some(record) = spool.record(number)? {
            held += record.len as usize;
            records.push(record);
        }
    }
    let mut bytes = Vec::with_capacity(held);
    for Record { stream, offset, len, .. } in records.into_iter().rev() {
        let mut piece = vec![0; len as usize];
        let mut read = 0;
        while read < piece.len()
            && let SegmentRead::Bytes(count) =
                spool.read_at(stream, offset + read as u64, &mut piece[read..])?
        {
            read += count;
        }
        bytes.extend_from_slice(&piece[..read]);
    }
    let beyond = bytes.len().saturating_sub(max_bytes);
    let text = String::from_utf8_lossy(&bytes[beyond..]).into_owned();
    Ok(Tail { text, is_cut: number > 0 || beyond > 0 })
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
}

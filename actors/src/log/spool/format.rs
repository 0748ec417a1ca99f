//! The spool's file names and index records.

use std::io;
use std::path::{Path, PathBuf};

use crate::event::Stream;
use crate::log::index::Fields;
pub use crate::log::index::FixedRecord;
use crate::log::segments::Series;

/// Bytes of a record on disk, with its CRC-32.
pub const RECORD_LEN: usize = Record::LEN + 4;
/// The file of the records, in the process's folder.
pub const INDEX: &str = "spool.idx";
/// Both streams. `stream as usize` is a stream's place in this array and in pairs `[stdout, stderr]`.
pub const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// Some bytes that the shim took from a pipe at once, or that `open` found beyond the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Milliseconds since 1970 when the bytes were taken from the pipe.
    pub at_ms: i64,
    pub stream: Stream,
    /// Where in the stream the bytes start.
    pub offset: u64,
    /// How many bytes there are; never 0, so zeros on disk are no record.
    pub len: u32,
}

impl FixedRecord for Record {
    /// Little endian: `at_ms` 8, `offset` 8, `len` 4, `stream` 1, zero 7.
    const LEN: usize = 28;

    fn bytes(&self) -> Vec<u8> {
        let (at_ms, offset, len) =
            (self.at_ms.to_le_bytes(), self.offset.to_le_bytes(), self.len.to_le_bytes());
        [&at_ms[..], &offset, &len, &[self.stream as u8, 0, 0, 0, 0, 0, 0, 0]].concat()
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let at_ms = i64::from_le_bytes(fields.take()?);
        let offset = fields.u64()?;
        let len = u32::from_le_bytes(fields.take()?);
        let [stream] = fields.take()?;
        let stream = *STREAMS.get(usize::from(stream))?;
        (len > 0).then_some(Self { at_ms, stream, offset, len })
    }
}

impl Record {
    /// The offset in the stream after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// The segments of a stream in a process's folder.
pub fn series(dir: &Path, stream: Stream) -> Series {
    let prefix = match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    Series { dir: dir.to_owned(), prefix, suffix: "log" }
}

/// The file of the segment that starts at this offset.
pub fn segment_path(dir: &Path, stream: Stream, offset: u64) -> PathBuf {
    series(dir, stream).path(offset)
}

/// The offsets at which a stream's segments start, in ascending order.
pub fn segments(dir: &Path, stream: Stream) -> io::Result<Vec<u64>> {
    series(dir, stream).starts()
}

/// Bytes at which a segment is full, with this limit for all of them: so few that retention, which removes
/// whole segments, frees little more than it must.
pub fn segment_bytes(spool_max_bytes: u64) -> u64 {
    (spool_max_bytes / 16).clamp(64 * 1024, 16 * 1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_encoding_and_no_flipped_bit_does() {
        let record = Record {
            at_ms: 1_700_000_000_123,
            stream: Stream::Stderr,
            offset: 1 << 40,
            len: 65_536,
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        for bit in 0..RECORD_LEN * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&damaged), None, "bit {bit}");
        }
    }
}

//! The spool's names and index records. Pure, but for listing a folder.

use std::io;
use std::path::{Path, PathBuf};

use crate::event::Stream;

/// Bytes of one index record.
pub const RECORD_LEN: usize = 32;
/// The index file's name.
pub const INDEX: &str = "spool.idx";

/// One piece of one stream, as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Milliseconds since 1970 when the bytes were taken from the pipe.
    pub at_ms: i64,
    pub stream: Stream,
    /// Where the bytes start in their stream.
    pub offset: u64,
    /// How many there are; never 0.
    pub len: u32,
}

impl Record {
    /// Little endian: `at_ms` 8, `offset` 8, `len` 4, `stream` 1, zero 7, CRC-32 of these 4.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..8].copy_from_slice(&self.at_ms.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20] = match self.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        let check = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` for a torn or damaged record.
    #[must_use]
    pub fn decode(bytes: &[u8; RECORD_LEN]) -> Option<Self> {
        let (body, check) = bytes.split_at(28);
        if crc32fast::hash(body).to_le_bytes() != check {
            return None;
        }
        let record = Self {
            at_ms: i64::from_le_bytes(body[..8].try_into().ok()?),
            offset: u64::from_le_bytes(body[8..16].try_into().ok()?),
            len: u32::from_le_bytes(body[16..20].try_into().ok()?),
            stream: match body[20] {
                0 => Stream::Stdout,
                1 => Stream::Stderr,
                _ => return None,
            },
        };
        (record.len > 0).then_some(record)
    }

    /// Where the bytes end in their stream.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// The segment of a stream that starts at `offset`.
#[must_use]
pub fn segment_path(dir: &Path, stream: Stream, offset: u64) -> PathBuf {
    dir.join(format!("{}-{offset:020}.log", stream_name(stream)))
}

/// The start offsets of a stream's segments still held, ascending.
pub fn segments(dir: &Path, stream: Stream) -> io::Result<Vec<u64>> {
    let prefix = stream_name(stream);
    let mut starts = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let start: Option<u64> = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix)?.strip_prefix('-')?.strip_suffix(".log"))
            .and_then(|digits| digits.parse().ok());
        starts.extend(start);
    }
    starts.sort_unstable();
    Ok(starts)
}

/// How large a segment grows before the next one begins, in bytes: small enough
/// that dropping the oldest frees little more than it must.
#[must_use]
pub fn segment_bytes(spool_max_bytes: u64) -> u64 {
    (spool_max_bytes / 16).clamp(64 * 1024, 16 * 1024 * 1024)
}

fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    }
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
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&damaged), None, "bit {bit}");
        }
    }
}

//! A full segment, compressed: frames of zstd, each a part of the stream that can be read by itself, and a
//! table of where they begin. The table is a skippable frame
//! (<https://www.rfc-editor.org/rfc/rfc8878.html#name-skippable-frames>), so that `zstd -d` gives the
//! segment as it was. A sealed segment is never changed.
//!
//! ```text
//!  file      | frame 0 | frame 1 | … | magic, length | records of the table, one more than frames | count |
//!
//!  sealing   x.jsonl ─compressed─▶ x.jsonl and x.jsonl.tmp, on the disk
//!                    ─renamed────▶ x.jsonl and x.jsonl.zst      (a kill here leaves both, with one content)
//!                    ─removed────▶ x.jsonl.zst
//! ```

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use zstd::bulk::{Compressor, Decompressor};

use super::index::{Fields, FixedRecord};
use crate::blocking::{if_there, lock};
use crate::failpoint;

/// Begins a skippable frame; zstd reserves sixteen such numbers.
const MAGIC: u32 = 0x184D_2A5E;
/// Bytes of a record of the table, with its checksum.
const RECORD: usize = Frame::LEN + 4;
/// The fastest level at which zstd finds the field names that all entries share.
const LEVEL: i32 = 1;

/// One segment at a time: a log that is opened again may find one that a thread of its former writer seals.
static SEALING: Mutex<()> = Mutex::new(());

/// Where a frame begins: in the segment (`start`) and in the file (`at`). The last record of the table is
/// the end of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    start: u64,
    at: u64,
}

impl FixedRecord for Frame {
    const LEN: usize = 16;

    fn bytes(&self) -> Vec<u8> {
        [self.start, self.at].map(u64::to_le_bytes).concat()
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { start: fields.u64()?, at: fields.u64()? })
    }
}

/// Compresses the segment in the file `plain` to the file `sealed`, and removes `plain`. `cuts` are the
/// offsets at which frames begin, beside the first. At any time one of the two files has the content on the
/// disk. Without the file `plain` there is nothing to do: it was sealed or removed meanwhile.
pub fn seal(plain: &Path, sealed: &Path, cuts: &[u64]) -> io::Result<()> {
    let _one = lock(&SEALING);
    if !plain.try_exists()? {
        return Ok(());
    }
    // A kill may have left both files.
    if Sealed::open(sealed).is_err() {
        let temporary = temporary(sealed);
        let written = compress(plain, &temporary, cuts).and_then(|()| {
            failpoint::hit("segment", "compressed");
            fs::rename(&temporary, sealed)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
            return written;
        }
    }
    failpoint::hit("segment", "sealed");
    if if_there(fs::remove_file(plain))?.is_none() {
        // Retention removed the plain file meanwhile, and did not see the sealed one: remove that, too.
        if_there(fs::remove_file(sealed))?;
    }
    Ok(())
}

/// The name of a sealed segment until it is whole.
pub fn temporary(sealed: &Path) -> PathBuf {
    sealed.with_extension("tmp")
}

fn compress(plain: &Path, temporary: &Path, cuts: &[u64]) -> io::Result<()> {
    let plain = File::open(plain)?;
    let end = plain.metadata()?.len();
    let file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    let mut file = BufWriter::new(file);
    let mut compressor = Compressor::new(LEVEL)?;
    // The table's checksums do not cover the frames; each frame gets its own.
    compressor.include_checksum(true)?;
    let mut frames = vec![Frame { start: 0, at: 0 }];
    let (mut bytes, mut frame) = (Vec::new(), Vec::new());
    for &cut in cuts.iter().filter(|cut| **cut < end).chain([&end]) {
        let Frame { start, at } = frames[frames.len() - 1];
        if cut <= start {
            continue;
        }
        bytes.resize(usize::try_from(cut - start).map_err(io::Error::other)?, 0);
        plain.read_exact_at(&mut bytes, start)?;
        frame.clear();
        frame.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        compressor.compress_to_buffer(&bytes, &mut frame)?;
        file.write_all(&frame)?;
        frames.push(Frame { start: cut, at: at + frame.len() as u64 });
    }
    let count = u32::try_from(frames.len()).map_err(io::Error::other)?;
    // The count comes last, because a reader begins at the file's end.
    let mut table: Vec<u8> = frames.iter().flat_map(FixedRecord::encode).collect();
    table.extend(count.to_le_bytes());
    let length = u32::try_from(table.len()).map_err(io::Error::other)?;
    file.write_all(&[MAGIC.to_le_bytes(), length.to_le_bytes()].concat())?;
    file.write_all(&table)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()
}

/// Reads a sealed segment. Keeps the last frame decompressed.
pub struct Sealed {
    file: File,
    /// The records of the table: one more than there are frames.
    table: Vec<u8>,
    /// Where the last frame ends.
    end: Frame,
    decompressor: Decompressor<'static>,
    /// The frame that was read last, and its content.
    last: Option<(usize, Vec<u8>)>,
}

impl Sealed {
    /// Reads the table.
    ///
    /// # Errors
    /// `InvalidData` for a damaged file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut count = [0; 4];
        let behind = file.metadata()?.len().checked_sub(4).ok_or_else(|| damaged("its end"))?;
        file.read_exact_at(&mut count, behind)?;
        let length = u64::from(u32::from_le_bytes(count)) * RECORD as u64;
        let from = behind.checked_sub(length).ok_or_else(|| damaged("its table"))?;
        let mut table = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut table, from)?;
        let end = table.rchunks_exact(RECORD).next().and_then(Frame::decode);
        let end = end.filter(|end| end.at + 8 == from).ok_or_else(|| damaged("its table"))?;
        Ok(Self { file, table, end, decompressor: Decompressor::new()?, last: None })
    }

    /// Bytes of the segment as it was before it was compressed.
    pub fn length(&self) -> u64 {
        self.end.start
    }

    /// Reads at `offset`, at most one buffer full, and never across the end of a frame; 0 at the segment's
    /// end.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.length() {
            return Ok(0);
        }
        // The first record beyond the offset. There is one: the last record is the segment's end.
        let (mut low, mut high) = (0, self.table.len() / RECORD - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.record(middle)?.start <= offset { low = middle + 1 } else { high = middle }
        }
        let number = low.checked_sub(1).ok_or_else(|| damaged("its table"))?;
        let (frame, next) = (self.record(number)?, self.record(low)?);
        let from = offset.checked_sub(frame.start).and_then(|from| usize::try_from(from).ok());
        let content = self.content(number, frame, next)?;
        let rest = from.and_then(|from| content.get(from..)).ok_or_else(|| damaged("its table"))?;
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn record(&self, number: usize) -> io::Result<Frame> {
        let bytes = self.table.chunks_exact(RECORD).nth(number);
        bytes.and_then(Frame::decode).ok_or_else(|| damaged("its table"))
    }

    /// The content of a frame, from memory if it was read last.
    fn content(&mut self, number: usize, frame: Frame, next: Frame) -> io::Result<&[u8]> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            let between =
                |from: u64, to: u64| to.checked_sub(from).and_then(|it| usize::try_from(it).ok());
            let sizes = between(frame.at, next.at).zip(between(frame.start, next.start));
            let (length, size) = sizes.ok_or_else(|| damaged("its table"))?;
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, frame.at)?;
            let content = self.decompressor.decompress(&bytes, size);
            let content = content.map_err(|error| damaged(&error.to_string()))?;
            if content.len() != size {
                return Err(damaged("a frame is too short"));
            }
            self.last = Some((number, content));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, content)| content))
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a compressed segment is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed(content: &[u8], cuts: &[u64]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let [plain, sealed] = ["a.jsonl", "a.jsonl.zst"].map(|name| dir.path().join(name));
        fs::write(&plain, content).unwrap();
        seal(&plain, &sealed, cuts).unwrap();
        assert!(!plain.exists());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        (dir, sealed)
    }

    proptest! {
        #[test]
        fn any_part_of_a_sealed_segment_is_what_it_was(
            content in prop::collection::vec(0..4_u8, 1..4000),
            mut cuts in prop::collection::btree_set(0..4000_u64, 0..9),
            reads in prop::collection::vec((0..4100_u64, 1..500_usize), 1..20),
        ) {
            cuts.insert(0);
            let (_dir, path) = sealed(&content, &cuts.into_iter().collect::<Vec<_>>());
            let mut segment = Sealed::open(&path).unwrap();
            prop_assert_eq!(segment.length(), content.len() as u64);
            for (offset, size) in reads {
                let mut buffer = vec![9; size];
                let read = segment.read_at(&mut buffer, offset).unwrap();
                let rest = &content[content.len().min(usize::try_from(offset).unwrap())..];
                prop_assert_eq!(read == 0, rest.is_empty());
                prop_assert_eq!(&buffer[..read], &rest[..read]);
            }
        }
    }

    #[test]
    fn zstd_itself_reads_a_sealed_segment() {
        let content = b"one entry\nanother entry\n".repeat(100);
        let (_dir, path) = sealed(&content, &[10, 24, 480]);
        assert_eq!(zstd::decode_all(File::open(path).unwrap()).unwrap(), content);
    }

    #[test]
    fn no_damage_gives_other_bytes() {
        let content: Vec<u8> =
            (0..400_u32).flat_map(|it| format!("entry {it}\n").into_bytes()).collect();
        let (dir, path) = sealed(&content, &[1000, 2000]);
        let whole = fs::read(&path).unwrap();
        let file = dir.path().join("damaged");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&file, &bytes).unwrap();
            let Ok(mut segment) = Sealed::open(&file) else { continue };
            for offset in [0, 1500, 3000] {
                let mut buffer = [0; 100];
                if let Ok(read) = segment.read_at(&mut buffer, offset) {
                    let from = usize::try_from(offset).unwrap();
                    assert_eq!(buffer[..read], content[from..from + read], "byte {at}");
                    assert!(read > 0);
                }
            }
            fs::write(&file, &whole[..at]).unwrap();
            assert!(Sealed::open(&file).is_err(), "cut at {at}");
        }
    }
}

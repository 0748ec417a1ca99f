//! Reads a stream of bytes that lies in segments: files named by the offset at which they start. Retention
//! may have removed the oldest ones. Full ones may be sealed, that is compressed.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::sealed::{Sealed, seal, temporary};
use crate::blocking::if_there;

/// Ends the name of a sealed segment, behind that of the plain one.
const SEALED: &str = ".zst";

/// The files of one stream: `<dir>/<prefix>-<offset>.<suffix>`, or the same name with `.zst` behind it.
#[derive(Clone, Debug)]
pub struct Series {
    pub dir: PathBuf,
    pub prefix: &'static str,
    pub suffix: &'static str,
}

impl Series {
    /// The plain file of the segment that starts at this offset.
    pub fn path(&self, start: u64) -> PathBuf {
        self.dir.join(format!("{}-{start:020}.{}", self.prefix, self.suffix))
    }

    fn sealed(&self, start: u64) -> PathBuf {
        let mut path = self.path(start).into_os_string();
        path.push(SEALED);
        path.into()
    }

    /// Whether there is a segment that starts at this offset, plain or sealed.
    pub fn has(&self, start: u64) -> io::Result<bool> {
        Ok(self.path(start).try_exists()? || self.sealed(start).try_exists()?)
    }

    /// Where the segment that starts here ends; `None` unless it is sealed.
    pub fn sealed_end(&self, start: u64) -> io::Result<Option<u64>> {
        let sealed = if_there(Sealed::open(&self.sealed(start)))?;
        Ok(sealed.map(|sealed| start + sealed.length()))
    }

    /// Compresses a segment that gets no more bytes. `cuts` are offsets in the stream at which readers
    /// begin: a frame starts at each, so that no reader decompresses more than one frame. Readers may read
    /// the segment at the same time.
    pub fn seal(&self, start: u64, cuts: &[u64]) -> io::Result<()> {
        let cuts: Vec<u64> = cuts.iter().filter_map(|cut| cut.checked_sub(start)).collect();
        seal(&self.path(start), &self.sealed(start), &cuts)
    }

    /// Removes a segment, plain, sealed or both, even while a thread seals it.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn remove(&self, start: u64) -> io::Result<()> {
        // The plain file first: sealing makes the sealed file and then removes the plain one. If that one
        // is gone by then, sealing removes its own file.
        let plain = if_there(std::fs::remove_file(self.path(start)))?;
        let sealed = if_there(std::fs::remove_file(self.sealed(start)))?;
        if_there(std::fs::remove_file(temporary(&self.sealed(start))))?;
        plain.or(sealed).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn open(&self, start: u64) -> io::Result<Segment> {
        match if_there(Sealed::open(&self.sealed(start))) {
            Ok(Some(sealed)) => Ok(Segment::Sealed(sealed)),
            Ok(None) => File::open(self.path(start)).map(Segment::Plain),
            // A kill during sealing may have left the plain file too.
            Err(damaged) => File::open(self.path(start)).map(Segment::Plain).map_err(|_| damaged),
        }
    }

    /// The offsets at which segments start, in ascending order. Empty where there is no folder.
    pub fn starts(&self) -> io::Result<Vec<u64>> {
        let Some(files) = if_there(std::fs::read_dir(&self.dir))? else { return Ok(Vec::new()) };
        let mut starts = Vec::new();
        for file in files {
            let name = file?.file_name();
            let name = name.to_str().map(|name| name.strip_suffix(SEALED).unwrap_or(name));
            let name = name.and_then(|name| name.strip_prefix(self.prefix));
            let digits = name.and_then(|name| name.strip_prefix('-')?.strip_suffix(self.suffix));
            starts.extend(digits.and_then(|digits| digits.strip_suffix('.')?.parse::<u64>().ok()));
        }
        starts.sort_unstable();
        starts.dedup();
        Ok(starts)
    }
}

enum Segment {
    Plain(File),
    Sealed(Sealed),
}

impl Segment {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read_at(buffer, offset),
            Self::Sealed(sealed) => sealed.read_at(buffer, offset),
        }
    }
}

/// The result of a read at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentRead {
    /// So many bytes were read, at least one.
    Bytes(usize),
    /// The stream ends at this offset so far.
    NotYet,
    /// Retention removed the bytes at this offset; the next bytes that exist are at `resume`.
    Gone { resume: u64 },
}

/// A stream from an offset to the end of what is written, as `Read`. `NotFound` where retention removed
/// bytes.
pub struct SegmentStream {
    pub segments: Segments,
    pub offset: u64,
}

impl Read for SegmentStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.segments.read_at(self.offset, buffer)? {
            SegmentRead::Bytes(read) => read,
            SegmentRead::NotYet => 0,
            SegmentRead::Gone { .. } => return Err(io::ErrorKind::NotFound.into()),
        };
        self.offset += read as u64;
        Ok(read)
    }
}

/// Reads a series at offsets, and keeps the last segment open.
pub struct Segments {
    series: Series,
    open: Option<(u64, Segment)>,
}

impl Segments {
    /// Opens nothing yet.
    pub fn new(series: Series) -> Self {
        Self { series, open: None }
    }

    /// Whether the segment that was read last is sealed: keeping it saves the next reader a decompression.
    pub fn is_sealed(&self) -> bool {
        matches!(self.open, Some((_, Segment::Sealed(_))))
    }

    /// The first offset still held; 0 when nothing was ever written.
    pub fn oldest(&self) -> io::Result<u64> {
        // The usual case, which needs no listing of the folder.
        if self.series.has(0)? {
            return Ok(0);
        }
        Ok(self.series.starts()?.first().copied().unwrap_or(0))
    }

    /// Reads at `offset`, at most one buffer full, never across the end of a segment.
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<SegmentRead> {
        loop {
            let read = self.read_open(offset, buffer)?;
            if read > 0 {
                return Ok(SegmentRead::Bytes(read));
            }
            let starts = self.series.starts()?;
            let later = starts.partition_point(|start| *start <= offset);
            if let Some(start) = later.checked_sub(1).map(|at| starts[at])
                && self.open.as_ref().is_none_or(|(open, _)| *open != start)
            {
                // `None`: retention removed the file after the listing; the next listing shows that.
                let segment = if_there(self.series.open(start))?;
                self.open = segment.map(|segment| (start, segment));
                continue;
            }
            let Some(&resume) = starts.get(later) else { return Ok(SegmentRead::NotYet) };
            // A segment that has a successor gets no more bytes. They may have come between the read and the
            // listing, so read once more; what is missing then is lost.
            return Ok(match self.read_open(offset, buffer)? {
                0 => SegmentRead::Gone { resume },
                read => SegmentRead::Bytes(read),
            });
        }
    }

    fn read_open(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.open {
            Some((start, segment)) if *start <= offset => segment.read_at(buffer, offset - *start),
            _ => Ok(0),
        }
    }
}

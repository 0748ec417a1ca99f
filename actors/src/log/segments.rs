//! Reads a stream of bytes that lies in segments: files named by the offset at which they
//! start, the oldest of which may be gone. Full ones may be sealed.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::sealed::{Sealed, seal, temporary};
use crate::blocking::if_there;

/// Behind the name of a sealed segment.
const SEALED: &str = ".zst";

/// The files of one stream: `<dir>/<prefix>-<offset>.<suffix>`, or behind it `.zst`.
#[derive(Clone, Debug)]
pub struct Series {
    pub dir: PathBuf,
    pub prefix: &'static str,
    pub suffix: &'static str,
}

impl Series {
    pub fn path(&self, start: u64) -> PathBuf {
        self.dir.join(format!("{}-{start:020}.{}", self.prefix, self.suffix))
    }

    fn sealed(&self, start: u64) -> PathBuf {
        let mut path = self.path(start).into_os_string();
        path.push(SEALED);
        path.into()
    }

    /// Whether there is a segment from `start` on.
    pub fn has(&self, start: u64) -> io::Result<bool> {
        Ok(self.path(start).try_exists()? || self.sealed(start).try_exists()?)
    }

    /// Where the segment from `start` on ends, if it is sealed.
    pub fn sealed_end(&self, start: u64) -> io::Result<Option<u64>> {
        let sealed = if_there(Sealed::open(&self.sealed(start)))?;
        Ok(sealed.map(|sealed| start + sealed.length()))
    }

    /// Compresses a segment that gets no more bytes; `cuts` are offsets in the stream from which
    /// readers begin. Readers may read it at the same time.
    pub fn seal(&self, start: u64, cuts: &[u64]) -> io::Result<()> {
        let cuts: Vec<u64> = cuts.iter().filter_map(|cut| cut.checked_sub(start)).collect();
        seal(&self.path(start), &self.sealed(start), &cuts)
    }

    pub fn remove(&self, start: u64) -> io::Result<()> {
        // In the order in which sealing makes the one and removes the other.
        let plain = if_there(std::fs::remove_file(self.path(start)))?;
        let sealed = if_there(std::fs::remove_file(self.sealed(start)))?;
        if_there(std::fs::remove_file(temporary(&self.sealed(start))))?;
        plain.or(sealed).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn open(&self, start: u64) -> io::Result<Segment> {
        match if_there(Sealed::open(&self.sealed(start))) {
            Ok(Some(sealed)) => Ok(Segment::Sealed(sealed)),
            Ok(None) => File::open(self.path(start)).map(Segment::Plain),
            // A kill may have left the plain one, too.
            Err(damaged) => File::open(self.path(start)).map(Segment::Plain).map_err(|_| damaged),
        }
    }

    /// In order.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentRead {
    Bytes(usize),
    NotYet,
    /// Retention removed the bytes; history resumes at this offset.
    Gone {
        resume: u64,
    },
}

/// Reads on from an offset to the end of what is written; `NotFound` where retention removed it.
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

pub struct Segments {
    series: Series,
    open: Option<(u64, Segment)>,
}

impl Segments {
    pub fn new(series: Series) -> Self {
        Self { series, open: None }
    }

    /// Whether the segment that was read last is sealed.
    pub fn is_sealed(&self) -> bool {
        matches!(self.open, Some((_, Segment::Sealed(_))))
    }

    /// The first offset still held; 0 when nothing was ever written.
    pub fn oldest(&self) -> io::Result<u64> {
        // The usual case, which needs no list.
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
                // `None`: retention was faster; the next listing shows it.
                let segment = if_there(self.series.open(start))?;
                self.open = segment.map(|segment| (start, segment));
                continue;
            }
            let Some(&resume) = starts.get(later) else { return Ok(SegmentRead::NotYet) };
            // A segment with a successor is complete: what a second look misses is lost.
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

//! Reading a stream of bytes that lies in segments: files named by the offset
//! at which they start, the oldest of which may be gone. Reads files only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The files that hold one stream.
pub trait Series {
    /// The segment that starts at `start`.
    fn path(&self, start: u64) -> PathBuf;
    /// The start offsets of the segments still held, ascending.
    fn starts(&self) -> io::Result<Vec<u64>>;
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentRead {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing written there yet.
    NotYet,
    /// Removed by retention; history resumes at this offset.
    Gone { resume: u64 },
}

/// A reader of one stream; keeps the segment it read last open.
pub struct Segments<S> {
    series: S,
    open: Option<(u64, File)>,
}

impl<S: Series> Segments<S> {
    pub fn new(series: S) -> Self {
        Self { series, open: None }
    }

    /// The first offset still held; 0 when nothing was ever written.
    pub fn oldest(&self) -> io::Result<u64> {
        // The usual case costs one stat, not a listing.
        if self.series.path(0).try_exists()? {
            return Ok(0);
        }
        match self.series.starts() {
            Ok(starts) => Ok(starts.first().copied().unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Reads what there is at `offset`, at most one buffer full, never across
    /// the end of a segment.
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<SegmentRead> {
        loop {
            let read = self.read_open(offset, buffer)?;
            if read > 0 {
                return Ok(SegmentRead::Bytes(read));
            }
            let starts = match self.series.starts() {
                Ok(starts) => starts,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(SegmentRead::NotYet);
                }
                Err(error) => return Err(error),
            };
            let later = starts.partition_point(|start| *start <= offset);
            let Some(start) = later.checked_sub(1).map(|at| starts[at]) else {
                return Ok(starts
                    .first()
                    .map_or(SegmentRead::NotYet, |&resume| SegmentRead::Gone { resume }));
            };
            if self.open.as_ref().is_some_and(|(open, _)| *open == start) {
                return self.read_past_end(offset, starts.get(later).copied(), buffer);
            }
            match File::open(self.series.path(start)) {
                Ok(file) => self.open = Some((start, file)),
                // Retention was faster than we; the next listing tells where it is.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.open = None,
                Err(error) => return Err(error),
            }
        }
    }

    fn read_open(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.open {
            Some((start, file)) if *start <= offset => file.read_at(buffer, offset - start),
            _ => Ok(0),
        }
    }

    /// The segment for `offset` is open and had nothing there. When a later one
    /// exists it is complete by now, so what a second look doesn't find is lost.
    fn read_past_end(
        &self,
        offset: u64,
        next: Option<u64>,
        buffer: &mut [u8],
    ) -> io::Result<SegmentRead> {
        let Some(resume) = next else { return Ok(SegmentRead::NotYet) };
        Ok(match self.read_open(offset, buffer)? {
            0 => SegmentRead::Gone { resume },
            read => SegmentRead::Bytes(read),
        })
    }
}

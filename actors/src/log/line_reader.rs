//! Reads a stream that lies in segments line by line, from an offset on, beside its writer.

use std::io::{self, BufRead, BufReader};

use super::LogError;
use super::segments::{SegmentStream, Segments, Series};
use crate::blocking::if_there;

/// The lines of a stream. It must begin where a line does.
pub struct LineReader {
    bytes: BufReader<SegmentStream>,
    line: Vec<u8>,
}

impl LineReader {
    /// Reads the files of a series from an offset on.
    pub fn new(series: Series, offset: u64) -> Self {
        Self::over(Segments::new(series), offset)
    }

    /// Gives the opened segments back, for the next reader.
    pub fn into_segments(self) -> Segments {
        self.bytes.into_inner().segments
    }

    /// The same over segments that an earlier reader has opened.
    pub fn over(segments: Segments, offset: u64) -> Self {
        let bytes = SegmentStream { segments, offset };
        Self { bytes: BufReader::with_capacity(32 * 1024, bytes), line: Vec::new() }
    }

    /// The next line without its `\n`; `None` at the end, and for a last line that has no `\n` yet.
    ///
    /// # Errors
    /// `Outrun` where retention removed the bytes, `Damaged` for a compressed segment that can't be read.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LogError> {
        self.line.clear();
        match if_there(self.bytes.read_until(b'\n', &mut self.line)) {
            Ok(Some(_)) => Ok(self.line.strip_suffix(b"\n")),
            Ok(None) => Err(LogError::Outrun),
            // Not an error of the disk: to try again would give the same.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(LogError::Damaged(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

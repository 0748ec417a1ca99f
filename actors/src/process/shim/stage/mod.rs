//! Where one stream's bytes lie between the pipe and the spool while secrets are taken out: a
//! memfd of which the daemon holds a duplicate, so that the bytes outlive this process.
//!
//! ```text
//!  pipe ──splice──▶ [ head | needles | …used… | held back, or just come in ]
//!                              read, redact ▶ spool, then the head says so
//! ```
//!
//! The file's length, which the kernel moves with the bytes, tells how many have come in; the
//! head tells how many of them are used, and how long the spool was then. Between the two, the
//! spool's next bytes are a function of the bytes here: after a kill the next shim finds the
//! spool longer than the head says, and writes the rest.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::event::Stream;
use crate::failpoint;
use crate::log::spool::write::{CHUNK, SpoolWriter, Taken, splice_into};
use crate::secret::Needle;
use crate::secret::redact::Redactor;

const VERSION: u64 = 1;
/// Four little-endian numbers: the version, the stream's start in the file, [`Progress`].
const HEAD: usize = 32;
const PROGRESS: u64 = 16;
/// Alignment of the stream's start, so that whole pages become free.
const PAGE: u64 = 4096;

/// One stream's stage. At most [`CHUNK`] bytes and a needle's length wait here.
pub struct Stage {
    stream: Stream,
    pub file: File,
    redactor: Redactor,
    start: u64,
    len: u64,
    progress: Progress,
    /// Bytes taken from the pipe and not reported yet.
    unreported: usize,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    used: u64,
    spooled: u64,
}

impl Stage {
    pub fn create(stream: Stream, needles: &[Needle], spool: &SpoolWriter) -> io::Result<Self> {
        let file = File::from(memfd_create(c"provost-stage", MFdFlags::MFD_CLOEXEC)?);
        let needles = serde_json::to_vec(needles)?;
        let start = ((HEAD + needles.len()) as u64).next_multiple_of(PAGE);
        file.set_len(start)?;
        for (place, number) in [VERSION, start, 0, spool.len(stream)].into_iter().enumerate() {
            file.write_all_at(&number.to_le_bytes(), place as u64 * 8)?;
        }
        file.write_all_at(&needles, HEAD as u64)?;
        Self::open(stream, file.into())
    }

    /// Opens the stage of another shim; fails for another version.
    pub fn open(stream: Stream, file: OwnedFd) -> io::Result<Self> {
        let file = File::from(file);
        let number = |place| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, place).map(|()| u64::from_le_bytes(bytes))
        };
        let (version, start) = (number(0)?, number(8)?);
        if version != VERSION {
            return Err(io::Error::other(format!("a stage of version {version}")));
        }
        let progress = Progress { used: number(PROGRESS)?, spooled: number(PROGRESS + 8)? };
        let mut needles = vec![0; usize::try_from(start).map_err(io::Error::other)? - HEAD];
        file.read_exact_at(&mut needles, HEAD as u64)?;
        let mut needles = serde_json::Deserializer::from_slice(&needles).into_iter();
        let needles: Vec<Needle> = needles.next().ok_or(io::ErrorKind::InvalidData)??;
        let redactor = Redactor::new(needles).map_err(io::Error::other)?;
        let len = file.metadata()?.len() - start;
        Ok(Self { stream, file, redactor, start, len, progress, unreported: 0 })
    }

    /// Takes what a pipe holds, [`CHUNK`] at most, and spools what is certainly no secret. An
    /// error loses nothing: call again later.
    pub fn take(&mut self, spool: &mut SpoolWriter, pipe: BorrowedFd<'_>) -> io::Result<Taken> {
        self.spool(spool, false)?;
        let taken = splice_into(&self.file, self.start + self.len, pipe, CHUNK)?;
        failpoint::hit("stage", "filled");
        if let Taken::Bytes(count) = taken {
            self.len += count as u64;
            self.unreported += count;
        }
        self.spool(spool, taken == Taken::End)?;
        Ok(match mem::take(&mut self.unreported) {
            0 => taken,
            count => Taken::Bytes(count),
        })
    }

    /// Spools what is held back as well: the writer has ended.
    pub fn release(&mut self, spool: &mut SpoolWriter) -> io::Result<()> {
        self.spool(spool, true)
    }

    fn spool(&mut self, spool: &mut SpoolWriter, is_end: bool) -> io::Result<()> {
        let Progress { used, spooled } = self.progress;
        if used == self.len {
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(self.len - used).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, self.start + used)?;
        let there = spool.len(self.stream).saturating_sub(spooled);
        let there = usize::try_from(there).map_err(io::Error::other)?;
        let mut redacted = self.redactor.redact(&bytes, is_end);
        if there > redacted.bytes.len() {
            // An earlier shim was writing the held back bytes at an end: go on with it.
            redacted = self.redactor.redact(&bytes, true);
        }
        let mut rest = redacted.bytes.get(there..).unwrap_or_default();
        while !rest.is_empty() {
            rest = &rest[spool.append(self.stream, rest)?..];
        }
        failpoint::hit("stage", "spooled");
        self.advance(redacted.used, spool.len(self.stream))
    }

    /// Records that so many bytes are used up, in one write within a page: whole or not at all.
    fn advance(&mut self, count: usize, spooled: u64) -> io::Result<()> {
        let progress = Progress { used: self.progress.used + count as u64, spooled };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&progress.used.to_le_bytes());
        bytes[8..].copy_from_slice(&progress.spooled.to_le_bytes());
        self.file.write_all_at(&bytes, PROGRESS)?;
        let page = |offset: u64| offset / PAGE * PAGE;
        let free = page(self.progress.used)..page(progress.used);
        self.progress = progress;
        if !free.is_empty() {
            let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let from = (self.start + free.start).cast_signed();
            // Best effort: a failure only costs memory.
            let _ = fallocate(&self.file, punch, from, (free.end - free.start).cast_signed());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

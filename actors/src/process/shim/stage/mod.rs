//! Where one stream's bytes wait between the pipe and the spool while secrets are removed: a memfd
//! (memfd_create(2)) of which the daemon holds a duplicate, so that the bytes outlive this process.
//!
//! ```text
//!  pipe ──splice──▶ [ head | needles | …used… | held back, or just come in ]
//!                              read, redact ▶ spool, then the head says so
//! ```
//!
//! Two numbers say how far the stage is. The file's length says how many bytes have come in: splice(2)
//! changes it together with the bytes. The head says how many of them are used, and how long the spool was
//! then. The spool's next bytes are a function of the bytes in between. So if a shim is killed after it has
//! written to the spool and before it has updated the head, the next shim finds a spool that is longer than
//! the head says, computes the same bytes again, and writes only the rest.

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
/// Bytes of the head: four little-endian numbers of 8 bytes: the version, the stream's start in the file, and
/// the two of [`Progress`].
const HEAD: usize = 32;
/// The offset of [`Progress`] in the file.
const PROGRESS: u64 = 16;
/// The alignment of the stream's start: whole pages of used bytes can be given back.
const PAGE: u64 = 4096;

/// One stream's stage. At most [`CHUNK`] bytes and the length of a needle wait in it.
pub struct Stage {
    stream: Stream,
    pub file: File,
    redactor: Redactor,
    /// The offset at which the stream begins.
    start: u64,
    /// Bytes of the stream that have come in.
    len: u64,
    progress: Progress,
    /// Bytes that were taken from the pipe in a call that failed later, and so were not returned yet.
    unreported: usize,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Bytes of the stream that are used up.
    used: u64,
    /// The length of the spool when they were.
    spooled: u64,
}

impl Stage {
    /// Makes an empty stage at the current end of the spool. The needles are in the file, since a rescue
    /// shim gets no secrets from the daemon.
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

    /// Opens a stage by its file, which an earlier shim may have made. Fails for a stage of another version.
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

    /// Takes what a pipe holds, [`CHUNK`] at most, and spools the bytes that are certainly no part of a
    /// secret. Returns what it took from the pipe, which may be more than it spooled. An error (mostly a
    /// full disk) loses nothing: call again later.
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

    /// Also spools the bytes that are held back. To be called when the writer has ended: no bytes come that
    /// could make a secret of them.
    pub fn release(&mut self, spool: &mut SpoolWriter) -> io::Result<()> {
        self.spool(spool, true)
    }

    /// Redacts the bytes that are not used yet, and spools the result without the bytes that the spool has
    /// already.
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
            // The spool has more than the undecided bytes allow. So an earlier shim was killed in
            // `release`, and this continues with that.
            redacted = self.redactor.redact(&bytes, true);
        }
        let mut rest = redacted.bytes.get(there..).unwrap_or_default();
        while !rest.is_empty() {
            rest = &rest[spool.append(self.stream, rest)?..];
        }
        failpoint::hit("stage", "spooled");
        self.advance(redacted.used, spool.len(self.stream))
    }

    /// Records that `count` more bytes are used up. One write(2) within a page: a kill leaves it whole or not
    /// done. Gives whole pages of used bytes back.
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
            // Best effort: a failure costs only memory.
            let _ = fallocate(&self.file, punch, from, (free.end - free.start).cast_signed());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

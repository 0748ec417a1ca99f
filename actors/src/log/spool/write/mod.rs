//! The spool's only writer: moves bytes from a pipe into segments and records what came when.
//!
//! Bytes go by splice(2) from the pipe to the file and are never in this process's memory, so a kill loses
//! none of them. Room for bytes is reserved before they are taken: on a full disk they stay in the pipe,
//! and the executor, which writes to the other end, waits. Bytes that may contain secrets come from memory
//! instead; the caller of [`append`](SpoolWriter::append) keeps their source. Every call leaves the folder
//! in a state from which [`SpoolWriter::open`] can continue.
//!
//! ```text
//!  one call   flush the last record ─▶ reserve room for a record ─▶ next segment, if this one is full
//!               ─▶ reserve room for bytes ─▶ take them ─▶ record them ─▶ drop the oldest segments
//! ```
//!
//! A kill between "take" and "record" leaves bytes without a record; `open` records them as of now.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, SpliceFFlags, fallocate, splice};

use super::format::{self, FixedRecord, INDEX, RECORD_LEN, Record, STREAMS};
use crate::event::{Stream, Timestamp};
use crate::failpoint;

/// Most bytes that one call takes, and so most bytes of a record, except for one that `open` writes.
pub const CHUNK: usize = 64 * 1024;
/// Where bytes go once the folder was deleted.
const NOWHERE: &str = "/dev/null";

/// The result of one read of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many bytes are in the spool and recorded.
    Bytes(usize),
    /// The pipe is empty now, and is still open.
    Nothing,
    /// No process has the pipe's other end any more, and all bytes were taken.
    End,
}

/// Writes the spool of one process. The shim has one; a rescue shim opens another in the same folder.
pub struct SpoolWriter {
    dir: PathBuf,
    segment_bytes: u64,
    max_bytes: u64,
    tails: [Tail; 2],
    index: Index,
    /// Full segments, the oldest first: stream, start, length.
    closed: VecDeque<(Stream, u64, u64)>,
    /// The file system takes bytes from a pipe directly; so it is assumed until splice(2) fails with EINVAL.
    can_splice: bool,
}

/// The newest segment of a stream: the one that grows.
struct Tail {
    stream: Stream,
    start: u64,
    end: u64,
    file: Option<Reserved>,
    /// Without splice: bytes that were taken from the pipe and are not in the file yet, since a write
    /// failed.
    unwritten: Vec<u8>,
}

struct Index {
    file: Reserved,
    len: u64,
    /// A record whose bytes are in their file, but which is not in the index.
    unwritten: Option<Record>,
}

/// A file with room that was set aside beyond its end (fallocate(2)), so that a write can't fail there.
struct Reserved {
    file: File,
    /// Bytes before this offset have room.
    until: u64,
}

impl SpoolWriter {
    /// Opens or begins a folder's spool: cuts off torn records, and records the bytes that have none.
    /// `max_bytes`: most bytes of both streams together, beyond which the oldest segments go.
    pub fn open(dir: &Path, max_bytes: u64) -> io::Result<Self> {
        let mut closed = Vec::new();
        let mut tails = STREAMS.map(Tail::new);
        for tail in &mut tails {
            let starts = format::segments(dir, tail.stream)?;
            // The clock may have been set back between two segments of a stream: their order is that of
            // their offsets, whatever their times say.
            let mut newest = None;
            for (position, &start) in starts.iter().enumerate() {
                let meta = fs::metadata(format::segment_path(dir, tail.stream, start))?;
                (tail.start, tail.end) = (start, start + meta.len());
                newest = newest.max(Some(meta.modified()?));
                if position + 1 < starts.len() {
                    closed.push((newest, (tail.stream, start, meta.len())));
                }
            }
        }
        closed.sort_by_key(|&(modified, _)| modified);

        let (index, covered) = Index::open(dir, tails.each_ref().map(|tail| tail.end))?;
        let mut writer = Self {
            dir: dir.to_owned(),
            segment_bytes: format::segment_bytes(max_bytes),
            max_bytes,
            tails,
            index,
            closed: closed.into_iter().map(|(_, segment)| segment).collect(),
            can_splice: true,
        };
        writer.cover(covered)?;
        Ok(writer)
    }

    /// Bytes of a stream that were spooled so far, with those that retention has removed.
    pub fn len(&self, stream: Stream) -> u64 {
        self.tails[stream as usize].end
    }

    /// Takes what a pipe (opened with `O_NONBLOCK`) holds, [`CHUNK`] at most. After an error nothing is
    /// lost: the caller tries again later.
    pub fn take(&mut self, stream: Stream, pipe: BorrowedFd<'_>) -> io::Result<Taken> {
        let room = self.make_ready(stream)?;
        let tail = &mut self.tails[stream as usize];
        let offset = tail.end;
        let taken = tail.take(pipe, room, &mut self.can_splice)?;
        if let Taken::Bytes(count) = taken {
            self.record(stream, offset, count)?;
        }
        Ok(taken)
    }

    /// Appends the first bytes of a slice, [`CHUNK`] at most. Returns how many. After an error
    /// [`len`](Self::len) says how many were written.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<usize> {
        let room = self.make_ready(stream)?;
        let tail = &mut self.tails[stream as usize];
        let offset = tail.end;
        let count = room.min(bytes.len());
        tail.write(&bytes[..count])?;
        self.record(stream, offset, count)?;
        Ok(count)
    }

    /// Makes room for the next record, begins the next segment if this one is full, and reserves room in the
    /// segment for the returned number of bytes.
    fn make_ready(&mut self, stream: Stream) -> io::Result<usize> {
        self.index.flush()?;
        self.index.file.reserve(self.index.len, RECORD_LEN as u64, self.index.len + 64 * 1024)?;
        let tail = &mut self.tails[stream as usize];
        if tail.end - tail.start >= self.segment_bytes {
            self.closed.push_back((stream, tail.start, tail.end - tail.start));
            tail.start = tail.end;
            tail.file = None;
        }
        tail.make_room(&self.dir, self.segment_bytes)
    }

    /// Records bytes that are in their file, as of now. If that fails, the next call writes the record
    /// first.
    fn record(&mut self, stream: Stream, offset: u64, count: usize) -> io::Result<()> {
        failpoint::hit("spool", "taken");
        let len = u32::try_from(count).unwrap_or(u32::MAX);
        let at_ms = Timestamp::now().millis();
        self.index.unwritten = Some(Record { at_ms, stream, offset, len });
        self.index.flush()?;
        failpoint::hit("spool", "recorded");
        self.drop_oldest();
        Ok(())
    }

    /// Waits until everything is on the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.index.flush()?;
        for tail in &self.tails {
            if let Some(reserved) = &tail.file {
                match reserved.file.sync_data() {
                    // fsync(2) gives EINVAL for a special file: this one is `NOWHERE`.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                    synced => synced?,
                }
            }
        }
        self.index.file.file.sync_data()
    }

    /// Gives back the room that was reserved and not used, once the process has ended.
    pub fn trim(&mut self) {
        for tail in &mut self.tails {
            if let Some(reserved) = &mut tail.file {
                reserved.trim(tail.end - tail.start);
            }
        }
        self.index.file.trim(self.index.len);
    }

    /// Records the bytes of each stream from `covered` on, as of now: a kill came before their records.
    fn cover(&mut self, covered: [u64; 2]) -> io::Result<()> {
        for stream in STREAMS {
            let tail = &self.tails[stream as usize];
            let current = (stream, tail.start, tail.end - tail.start);
            let held = self.closed.iter().copied().filter(|segment| segment.0 == stream);
            let mut segments: Vec<_> = held.chain([current]).collect();
            segments.sort_unstable_by_key(|&(_, start, _)| start);
            for (stream, start, len) in segments {
                let (mut offset, end) = (start.max(covered[stream as usize]), start + len);
                while offset < end {
                    let len = u32::try_from(end - offset).unwrap_or(u32::MAX);
                    let at_ms = Timestamp::now().millis();
                    self.index.unwritten = Some(Record { at_ms, stream, offset, len });
                    self.index.flush()?;
                    offset += u64::from(len);
                }
            }
        }
        Ok(())
    }

    /// Retention: removes full segments, the oldest first, while the spool is over its limit.
    fn drop_oldest(&mut self) {
        let current: u64 = self.tails.iter().map(|tail| tail.end - tail.start).sum();
        let mut held = current + self.closed.iter().map(|&(_, _, len)| len).sum::<u64>();
        while held > self.max_bytes
            && let Some((stream, start, len)) = self.closed.pop_front()
        {
            // A segment that can't be removed takes up space, and does no other harm.
            let _ = fs::remove_file(format::segment_path(&self.dir, stream, start));
            held -= len;
        }
    }
}

impl Tail {
    fn new(stream: Stream) -> Self {
        Self { stream, start: 0, end: 0, file: None, unwritten: Vec::new() }
    }

    /// Takes up to `room` bytes.
    fn take(
        &mut self,
        pipe: BorrowedFd<'_>,
        room: usize,
        can_splice: &mut bool,
    ) -> io::Result<Taken> {
        let Some(reserved) = &self.file else { return Ok(Taken::Nothing) };
        if *can_splice && self.unwritten.is_empty() {
            match splice_into(&reserved.file, self.end - self.start, pipe, room) {
                Err(Errno::EINVAL) => *can_splice = false,
                taken => {
                    let taken = taken?;
                    if let Taken::Bytes(count) = taken {
                        self.end += count as u64;
                    }
                    return Ok(taken);
                }
            }
        }
        if self.unwritten.is_empty() {
            self.unwritten.resize(room, 0);
            let read = nix::unistd::read(pipe, &mut self.unwritten);
            self.unwritten.truncate(read.unwrap_or(0));
            if self.unwritten.is_empty() {
                return Ok(taken(read)?);
            }
        }
        reserved.file.write_all_at(&self.unwritten, self.end - self.start)?;
        let count = self.unwritten.len();
        self.unwritten.clear();
        self.end += count as u64;
        Ok(Taken::Bytes(count))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(reserved) = &self.file else { return Err(io::ErrorKind::NotFound.into()) };
        reserved.file.write_all_at(bytes, self.end - self.start)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Opens the current segment, and reserves room for the returned number of bytes.
    fn make_room(&mut self, dir: &Path, segment_bytes: u64) -> io::Result<usize> {
        let at = self.end - self.start;
        let count = CHUNK.min(usize::try_from(segment_bytes - at).unwrap_or(CHUNK));
        let reserved = match &mut self.file {
            Some(reserved) => reserved,
            file => {
                let path = format::segment_path(dir, self.stream, self.start);
                let opened = match open(&path) {
                    // The folder was deleted. The bytes are thrown away, so that the executor does not wait
                    // for ever.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => open(NOWHERE)?,
                    opened => opened?,
                };
                file.insert(Reserved { file: opened, until: 0 })
            }
        };
        // Steps grow with the segment: small ones for the many that stay small.
        let step = (at / 4).max(CHUNK as u64);
        reserved.reserve(at, count as u64, (at + step).min(segment_bytes))?;
        Ok(count)
    }
}

impl Index {
    /// Opens it, cut after the last good record. Also returns where the recorded bytes end.
    fn open(dir: &Path, ends: [u64; 2]) -> io::Result<(Self, [u64; 2])> {
        let file = open(dir.join(INDEX))?;
        let mut covered = [0; 2];
        let (mut position, mut len) = (0, 0);
        let mut reader = io::BufReader::with_capacity(CHUNK, &file);
        let mut bytes = [0; RECORD_LEN];
        loop {
            match reader.read_exact(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                read => read?,
            }
            position += RECORD_LEN as u64;
            if let Some(record) = Record::decode(&bytes)
                && record.end() <= ends[record.stream as usize]
            {
                covered[record.stream as usize] = record.end();
                len = position;
            }
        }
        file.set_len(len)?;
        let file = Reserved { file, until: len };
        Ok((Self { file, len, unwritten: None }, covered))
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(record) = self.unwritten {
            self.file.file.write_all_at(&record.encode(), self.len)?;
            self.len += RECORD_LEN as u64;
            self.unwritten = None;
        }
        Ok(())
    }
}

impl Reserved {
    /// Reserves room for `count` bytes at `at`, and if possible up to `goal`. File systems without
    /// fallocate(2) reserve nothing; there a write may fail.
    fn reserve(&mut self, at: u64, count: u64, goal: u64) -> io::Result<()> {
        if at + count <= self.until {
            return Ok(());
        }
        let goal = goal.max(at + count);
        let room = |until: u64| {
            let (from, len) = (self.until.cast_signed(), (until - self.until).cast_signed());
            match fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, len) {
                Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::ENODEV) => Ok(until),
                Err(errno) => Err(errno),
            }
        };
        self.until = room(goal).or_else(|_| room(at + count))?;
        Ok(())
    }

    fn trim(&mut self, len: u64) {
        // To set a file's length to what it is frees the blocks beyond its end. A failure costs only space.
        if self.file.set_len(len).is_ok() {
            self.until = len;
        }
    }
}

/// Moves what a pipe holds, `count` bytes at most, to an offset of a file (splice(2)). The offset is given,
/// so the file's own position does not matter. `EINVAL`: the file system can't do that.
pub fn splice_into(
    file: &File,
    offset: u64,
    pipe: BorrowedFd<'_>,
    count: usize,
) -> nix::Result<Taken> {
    let mut offset = offset.cast_signed();
    taken(splice(pipe, None, file, Some(&mut offset), count, SpliceFFlags::SPLICE_F_NONBLOCK))
}

/// A count as a result of a read; an empty or interrupted one is `Nothing`.
fn taken(count: nix::Result<usize>) -> nix::Result<Taken> {
    match count {
        Ok(0) => Ok(Taken::End),
        Ok(count) => Ok(Taken::Bytes(count)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(Taken::Nothing),
        Err(errno) => Err(errno),
    }
}

/// Opens a file for writing at offsets; not with `O_APPEND`, which splice(2) refuses.
fn open(path: impl AsRef<Path>) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests;

//! An attempt's log as the rest of the daemon sees it: one writer at a time (`writer` has
//! the changes), and any number of readers beside it.

mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use writer::LogWriter;

use super::live::Live;
use super::normalized::NormalizedReader;
use super::page::{self, Query, ReadError};
use super::raw::{Floors, RawReader, process_dir};
use super::ring::Ring;
use super::spool::read::SpoolReader;
use super::{LogError, LogLimits, Page, Tip};
use crate::blocking::lock;
use crate::event::{Channel, Timestamp};
use crate::executor::InProgress;

/// How often a page is begun anew because retention took what it was reading.
const PAGE_TRIES: usize = 16;

/// The two log channels of one attempt, with one instance for an attempt's folder at a time.
/// The methods read and write files and block, except `tip`, `in_progress` and `changed`.
pub struct AttemptLog {
    dir: PathBuf,
    limits: LogLimits,
    live: Arc<Live>,
    writer: Mutex<Guarded>,
    raw: RawReader,
    normalized: NormalizedReader,
    floors: Mutex<Floors>,
}

struct Guarded {
    writer: LogWriter,
    /// The last change failed half-way; the files are the truth.
    is_stale: bool,
}

impl AttemptLog {
    /// Opens the log in an attempt's folder, which it makes. Reads what the last checkpoint lacks.
    pub fn open(attempt_dir: &Path, limits: LogLimits) -> Result<Self, LogError> {
        let live = Arc::new(Live::new(limits));
        let writer = LogWriter::open(attempt_dir, limits, Arc::clone(&live))?;
        Ok(Self {
            dir: attempt_dir.to_owned(),
            limits,
            live,
            raw: writer.raw_reader(),
            normalized: writer.normalized_reader(),
            writer: Mutex::new(Guarded { writer, is_stale: false }),
            floors: Mutex::default(),
        })
    }

    pub fn tip(&self) -> Tip {
        self.live.tip()
    }

    /// When an executor last wrote anything, including what was not read yet.
    pub fn last_activity_at(&self) -> Result<Option<Timestamp>, LogError> {
        let taken_in = self.live.tip().last_activity_at;
        let Some(process) = self.live.processes().pop_last() else { return Ok(taken_in) };
        let last = SpoolReader::open(&process_dir(&self.dir, process)).last_record()?;
        Ok(last.map(|record| Timestamp::from_millis(record.at_ms)).or(taken_in))
    }

    /// The end of the message that is being streamed, at most 4 KiB; `None` after a restart.
    pub fn in_progress(&self) -> Option<InProgress> {
        self.live.in_progress()
    }

    /// Changes whenever an entry was appended to either channel.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.live.changed()
    }

    /// A page of a channel. Costs the page and one block of entries, however long the log is.
    pub fn page(&self, channel: Channel, query: &Query) -> Result<Page, LogError> {
        for _ in 0..PAGE_TRIES {
            match self.try_page(channel, query) {
                Err(ReadError::Gone) => {}
                page => return Ok(page?),
            }
        }
        Err(LogError::Outrun)
    }

    fn try_page(&self, channel: Channel, query: &Query) -> Result<Page, ReadError> {
        let next = self.live.with_ring(channel, Ring::next);
        let in_progress = match channel {
            Channel::Normalized => self.live.in_progress(),
            Channel::Raw => None,
        };
        let held = self.oldest(channel, next)?..next;
        let (range, direction) = page::plan(&held, query);
        let in_memory = self.live.with_ring(channel, |ring| ring.get(&range));
        let block = |entry, below| match (&in_memory, channel) {
            (Some(entries), _) => Ok(entries.clone()),
            (None, Channel::Raw) => self.raw.block(entry, below),
            (None, Channel::Normalized) => self.normalized.block(entry, below),
        };
        let entries = page::collect(block, &range, direction, query.max_bytes)?;
        let taken = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => first.index()..last.index() + 1,
            _ => range.start..range.start,
        };
        Ok(Page { flags: page::flags(&held, query, &taken), entries, in_progress })
    }

    fn oldest(&self, channel: Channel, next: u64) -> Result<u64, ReadError> {
        Ok(match channel {
            Channel::Normalized => self.normalized.oldest(next)?,
            Channel::Raw => lock(&self.floors).oldest(&self.raw, &self.live.processes(), next)?,
        })
    }

    /// Runs a change. After one that failed or panicked, the next opens the files again.
    fn write<T>(
        &self,
        change: impl FnOnce(&mut LogWriter) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut guard = lock(&self.writer);
        let Guarded { writer, is_stale } = &mut *guard;
        if *is_stale {
            let mut anew = LogWriter::open(&self.dir, self.limits, Arc::clone(&self.live))?;
            anew.inherit(writer);
            *writer = anew;
        }
        *is_stale = true;
        let done = change(writer)?;
        *is_stale = false;
        Ok(done)
    }
}

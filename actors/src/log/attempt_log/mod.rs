//! An attempt's log as the rest of the daemon sees it: one writer at a time (`writer` has
//! the changes), and any number of readers beside it.

mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use writer::LogWriter;

use super::live::Live;
use super::normalized::NormalizedReader;
use super::page::{self, Query};
use super::raw::{RawReader, process_dir};
use super::ring::Ring;
use super::spool::read::SpoolReader;
use super::{LogError, LogLimits, Page, Tip};
use crate::blocking::lock;
use crate::event::{Channel, Timestamp};
use crate::executor::InProgress;
use crate::ids::ProcessId;

const PAGE_TRIES: usize = 16;

/// The two log channels of one attempt, with one instance for an attempt's folder at a time.
/// The methods read and write files and block, except `tip`, `in_progress` and `changed`.
pub struct AttemptLog {
    dir: PathBuf,
    limits: LogLimits,
    live: Arc<Live>,
    /// Stale after a change that failed half-way: the files are the truth.
    writer: Mutex<(LogWriter, bool)>,
    raw: RawReader,
    normalized: NormalizedReader,
    /// By process: its first block from which on all of its blocks are held.
    held: Mutex<BTreeMap<ProcessId, u64>>,
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
            raw: writer.raw.reader(),
            normalized: writer.normalized.reader(),
            writer: Mutex::new((writer, false)),
            held: Mutex::default(),
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

    pub fn changed(&self) -> watch::Receiver<u64> {
        self.live.changed()
    }

    /// A page of a channel. Costs the page and one block of entries, however long the log is.
    pub fn page(&self, channel: Channel, query: &Query) -> Result<Page, LogError> {
        for _ in 0..PAGE_TRIES {
            match self.try_page(channel, query) {
                Err(LogError::Outrun) => {}
                page => return page,
            }
        }
        Err(LogError::Outrun)
    }

    fn try_page(&self, channel: Channel, query: &Query) -> Result<Page, LogError> {
        let next = self.live.with_ring(channel, Ring::next);
        let in_progress = match channel {
            Channel::Normalized => self.live.in_progress(),
            Channel::Raw => None,
        };
        let oldest = match channel {
            Channel::Normalized => self.normalized.oldest(next)?,
            Channel::Raw => self.raw.oldest(&mut lock(&self.held), &self.live.processes(), next)?,
        };
        let held = oldest..next;
        let range = page::plan(&held, query);
        let in_memory = self.live.with_ring(channel, |ring| ring.get(&range));
        let block = |entry, below| match (&in_memory, channel) {
            (Some(entries), _) => Ok(entries.clone()),
            (None, Channel::Raw) => self.raw.block(entry, below),
            (None, Channel::Normalized) => self.normalized.block(entry, below),
        };
        let (entries, flags) = page::collect(block, &held, range, query)?;
        Ok(Page { entries, flags, in_progress })
    }

    /// Runs a change. After one that failed or panicked, the next opens the files again.
    fn write<T>(
        &self,
        change: impl FnOnce(&mut LogWriter) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut guard = lock(&self.writer);
        let (writer, is_stale) = &mut *guard;
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

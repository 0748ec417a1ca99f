//! An attempt's log as the rest of the daemon sees it: one pump that takes in
//! what the executors wrote, any number of readers beside it. Theory of
//! operation: the module above.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::live::Live;
use super::normalized::NormalizedReader;
use super::page::{self, Budget, Query, ReadError};
use super::raw::{Floors, RawReader, process_dir};
use super::ring::Entry;
use super::spool::read::SpoolReader;
use super::writer::LogWriter;
use super::{LogError, LogLimits, Page, Pumped, Tip};
use crate::blocking::lock;
use crate::event::{Channel, Event, Timestamp};
use crate::executor::{InProgress, Normalizer, Observed};
use crate::ids::{ApprovalId, ProcessId};

/// How often a page is begun anew because retention took what it was reading.
const PAGE_TRIES: usize = 16;

/// The two log channels of one attempt. Shared as `Arc<AttemptLog>`; there must
/// be one for an attempt's folder at a time.
///
/// The methods read and write files and block: call them from `spawn_blocking`
/// or a thread of their own. `tip`, `in_progress` and `changed` don't.
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
    /// Opens the log in an attempt's folder, making the folder when there is
    /// none. Costs what was written since the last checkpoint, 1 MiB or so.
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

    /// A process begins; its spool is the folder `<attempt dir>/<process>`. The
    /// opening events enter the normalized channel now.
    ///
    /// Called again with the same values, after a restart too, it goes on: what
    /// is there already isn't entered twice. `turn` and `opening` must be those
    /// of the first call.
    pub fn begin(
        &self,
        process: ProcessId,
        turn: u32,
        normalizer: Box<dyn Normalizer>,
        opening: Vec<(Timestamp, Event)>,
    ) -> Result<(), LogError> {
        self.write(|writer| writer.begin(process, turn, normalizer, opening))
    }

    /// Takes in what the process's spool holds beyond what was read, some 1 MiB
    /// at most. [`LogError::NotBegun`] for a process that neither was begun nor
    /// had finished.
    ///
    /// After [`finish`](Self::finish) it takes in what leftovers of the process
    /// write later, each line as a `system_message` of the same turn.
    pub fn pump(&self, process: ProcessId) -> Result<Pumped, LogError> {
        self.write(|writer| writer.pump(process))
    }

    /// The process has ended, having written so many bytes (stdout, stderr):
    /// takes in the rest of them, ends the open lines, lets the normalizer flush
    /// and appends the closing events, which are asked for when all it said is
    /// known. All on the disk itself when it returns.
    ///
    /// Once it has returned, further calls change nothing and give the newest
    /// facts again. When it was cut short, the same call goes on.
    pub fn finish(
        &self,
        process: ProcessId,
        lengths: (u64, u64),
        ended_at: Timestamp,
        closing: impl FnOnce() -> Vec<(Timestamp, Event)>,
    ) -> Result<Vec<Observed>, LogError> {
        self.write(|writer| writer.finish(process, lengths, ended_at, closing))
    }

    /// Puts an entry of the daemon's own into the normalized channel. A crash
    /// before this returns leaves it there whole or not at all.
    pub fn append(
        &self,
        process: ProcessId,
        turn: u32,
        at: Timestamp,
        event: Event,
    ) -> Result<(), LogError> {
        self.write(|writer| writer.append(process, turn, at, event))
    }

    /// Puts the verdict on what a process asked for into the normalized channel,
    /// once for each approval. [`LogError::NotBegun`] as for [`pump`](Self::pump).
    pub fn append_verdict(
        &self,
        process: ProcessId,
        approval: ApprovalId,
        at: Timestamp,
        event: Event,
    ) -> Result<(), LogError> {
        self.write(|writer| writer.append_verdict(process, approval, at, event))
    }

    /// Where both channels stand.
    pub fn tip(&self) -> Tip {
        self.live.tip()
    }

    /// When an executor last wrote anything, also what is not taken in yet.
    pub fn last_activity_at(&self) -> Result<Option<Timestamp>, LogError> {
        let taken_in = self.live.tip().last_activity_at;
        let Some(process) = self.live.processes().pop_last() else { return Ok(taken_in) };
        let last = SpoolReader::open(&process_dir(&self.dir, process)).last_record()?;
        Ok(last.map(|record| Timestamp::from_millis(record.at_ms)).or(taken_in))
    }

    /// The end of the message that is being streamed, at most 4 KiB of it.
    /// Forgotten by a restart until the executor writes more of it.
    pub fn in_progress(&self) -> Option<InProgress> {
        self.live.in_progress()
    }

    /// Changes whenever an entry was appended to either channel.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.live.changed()
    }

    /// A page of a channel. Costs the page and one block of entries, however
    /// long the log is; runs beside the pump.
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
        let next = self.live.with_ring(channel, super::ring::Ring::next);
        let in_progress = match channel {
            Channel::Normalized => self.live.in_progress(),
            Channel::Raw => None,
        };
        let held = self.oldest(channel, next)?..next;
        let (range, direction) = page::plan(&held, query);
        let in_memory: Option<Vec<Entry>> = self
            .live
            .with_ring(channel, |ring| ring.get(&range).map(|entries| entries.cloned().collect()));
        let mut budget = Budget::new(query.max_bytes);
        let entries = match (in_memory, channel) {
            (Some(entries), _) => page::collect(&entries, &range, direction, &mut budget)?,
            (None, Channel::Raw) => page::collect(&self.raw, &range, direction, &mut budget)?,
            (None, Channel::Normalized) => {
                page::collect(&self.normalized, &range, direction, &mut budget)?
            }
        };
        let taken = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => first.index()..last.index() + 1,
            _ => range.start..range.start,
        };
        let flags = page::flags(&held, query, &taken);
        Ok(Page { entries, flags, in_progress })
    }

    fn oldest(&self, channel: Channel, next: u64) -> Result<u64, ReadError> {
        Ok(match channel {
            Channel::Normalized => self.normalized.oldest(next)?,
            Channel::Raw => {
                let processes = self.live.processes();
                let mut floors = lock(&self.floors);
                floors.oldest(&self.raw, &processes, next)?
            }
        })
    }

    /// Runs a change. After one that failed or panicked, the next begins with
    /// what the files say.
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

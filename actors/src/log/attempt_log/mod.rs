//! An attempt's log as the rest of the daemon sees it: one writer at a time (`writer` has the changes), and
//! any number of readers beside it.
//!
//! Locks: `writer` is held for a whole change, with its file access. A page takes it never: readers see
//! what `Live` shows, and files that only grow or lose whole segments. `held` is locked while the oldest
//! raw entry is searched for, `activity` for a moment; no two of the three are held at once.

mod ship;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::{self, OnceCell, watch};

use ship::Copying;
use writer::LogWriter;

use super::live::Live;
use super::normalized::NormalizedReader;
use super::page::{self, Query};
use super::raw::{RawReader, process_dir};
use super::shipped::{self, Grown, Growth, ShippedLogs};
use super::spool::read::SpoolReader;
use super::{LogError, LogLimits, Page, Tip};
use crate::blocking::{blocking, if_there, lock};
use crate::event::{Channel, Timestamp};
use crate::executor::InProgress;
use crate::ids::{AttemptId, ProcessId};

/// How often a page is read again when retention removes entries while it is read.
const PAGE_TRIES: usize = 16;
/// Logs that are not in use are closed when more than this many are open.
const KEPT: usize = 32;

/// The two log channels of one attempt. An attempt's folder has at most one instance at a time ([`Logs`]
/// sees to that): two writers would give one number twice. All methods access files and block, except
/// `tip`, `has_begun`, `in_progress`, `changed` and `page_in_memory`; `known_activity_at` needs one stat(2).
pub struct AttemptLog {
    dir: PathBuf,
    limits: LogLimits,
    live: Arc<Live>,
    /// The writer, and whether it is stale: after a change that failed half-way the files are the truth, and
    /// the next change opens them again.
    writer: Mutex<(LogWriter, bool)>,
    raw: RawReader,
    normalized: NormalizedReader,
    /// For each process the first block from which on all of its blocks are held: where the next search for
    /// the oldest raw entry begins.
    held: Mutex<BTreeMap<ProcessId, u64>>,
    activity: Mutex<Option<Activity>>,
}

/// The time of the last record of a process's spool, valid while the spool's index has this length.
struct Activity {
    process: ProcessId,
    /// Bytes of all records of the index.
    length: u64,
    at: Option<Timestamp>,
}

impl AttemptLog {
    /// Opens the log in an attempt's folder, and makes the folder. Reads again what came after the last
    /// checkpoint.
    pub fn open(attempt_dir: &Path, limits: LogLimits) -> Result<Self, LogError> {
        Self::open_copied(attempt_dir, limits, None)
    }

    /// The same; `grown` is where growth is noted so that the log is shipped.
    fn open_copied(
        attempt_dir: &Path,
        limits: LogLimits,
        grown: Option<Growth>,
    ) -> Result<Self, LogError> {
        let live = Arc::new(Live::new(limits, grown));
        let writer = LogWriter::open(attempt_dir, limits, Arc::clone(&live))?;
        Ok(Self {
            dir: attempt_dir.to_owned(),
            limits,
            live,
            raw: writer.raw.reader(),
            normalized: writer.normalized.reader(),
            writer: Mutex::new((writer, false)),
            held: Mutex::default(),
            activity: Mutex::default(),
        })
    }

    /// How far both channels are. Reads no file.
    pub fn tip(&self) -> Tip {
        self.live.tip()
    }

    /// Whether a process was begun in this log, with its first entries. Reads no file.
    pub fn has_begun(&self, process: ProcessId) -> bool {
        self.live.processes().contains(&process)
    }

    /// When an executor last wrote anything, including what was not read yet.
    pub fn last_activity_at(&self) -> Result<Option<Timestamp>, LogError> {
        if let Some(known) = self.known_activity_at() {
            return Ok(known);
        }
        let Some(process) = self.live.newest_process() else { return Ok(None) };
        let mut spool = SpoolReader::open(&process_dir(&self.dir, process));
        // Read before the record: if a record is added in between, the length no longer fits, and the time
        // is read again.
        let length = spool.length()?;
        let at = spool.last_record()?.map(|record| Timestamp::from_millis(record.at_ms));
        *lock(&self.activity) = Some(Activity { process, length, at });
        Ok(at.max(self.live.tip().last_activity_at))
    }

    /// The same without opening a file. The outer `None`: something was written since the last read, or the
    /// spool can't be looked at, so the caller has to call [`last_activity_at`](Self::last_activity_at).
    pub fn known_activity_at(&self) -> Option<Option<Timestamp>> {
        let taken_in = self.live.tip().last_activity_at;
        let Some(process) = self.live.newest_process() else { return Some(taken_in) };
        let length = SpoolReader::open(&process_dir(&self.dir, process)).length().ok()?;
        let activity = lock(&self.activity);
        let known = activity.as_ref().filter(|it| it.process == process && it.length == length)?;
        // The newest process may be a setup, which the agent's own follows.
        Some(known.at.max(taken_in))
    }

    /// The last 4 KiB of the message that the agent streams; `None` when none is streamed, and after a
    /// restart until the agent writes more of it.
    pub fn in_progress(&self) -> Option<InProgress> {
        self.live.in_progress()
    }

    /// A counter that grows when entries of either channel have been shown: waits and streams watch it.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.live.changed()
    }

    /// A page of a channel. Costs the page and one block of entries, however long the log is.
    ///
    /// # Errors
    /// `Outrun` if retention removed entries during each of 16 tries.
    pub fn page(&self, channel: Channel, query: &Query) -> Result<Page, LogError> {
        for _ in 0..PAGE_TRIES {
            match self.try_page(channel, query) {
                Err(LogError::Outrun) => {}
                page => return page,
            }
        }
        Err(LogError::Outrun)
    }

    /// The same page from memory alone, without blocking. `None`: the channel is the raw one, retention has
    /// removed entries, or the ring lacks a part of the page.
    pub fn page_in_memory(&self, channel: Channel, query: &Query) -> Option<Page> {
        if channel == Channel::Raw || !self.live.is_whole() {
            return None;
        }
        let held = 0..self.live.tip().normalized.map_or(0, |latest| latest + 1);
        let in_progress = self.live.in_progress();
        let range = page::plan(&held, query);
        let newest = self.live.newest(&range)?;
        let (entries, flags) =
            page::collect(|_, _| Ok(newest.clone()), &held, range, query).ok()?;
        Some(Page { entries, flags, in_progress })
    }

    fn try_page(&self, channel: Channel, query: &Query) -> Result<Page, LogError> {
        let tip = self.live.tip();
        let latest = match channel {
            Channel::Normalized => tip.normalized,
            Channel::Raw => tip.raw,
        };
        let next = latest.map_or(0, |latest| latest + 1);
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
        let in_memory = match channel {
            Channel::Normalized => self.live.newest(&range),
            Channel::Raw => None,
        };
        let block = |entry, wanted: &Range<u64>| match (&in_memory, channel) {
            (Some(entries), _) => Ok(entries.clone()),
            (None, Channel::Raw) => self.raw.block(entry, wanted),
            (None, Channel::Normalized) => self.normalized.block(entry, wanted),
        };
        let (entries, flags) = page::collect(block, &held, range, query)?;
        Ok(Page { entries, flags, in_progress })
    }

    /// Runs a change by the one writer. After a change that failed or panicked, the next one opens the files
    /// again, with the normalizers of the failed writer.
    fn write<T>(
        &self,
        change: impl FnOnce(&mut LogWriter) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut guard = lock(&self.writer);
        let (writer, is_stale) = &mut *guard;
        if *is_stale {
            let mut reopened = LogWriter::open(&self.dir, self.limits, Arc::clone(&self.live))?;
            reopened.inherit(writer);
            *writer = reopened;
        }
        // Set before the change, so that a panic leaves it set.
        *is_stale = true;
        let done = change(writer);
        match &done {
            Ok(_) => *is_stale = false,
            Err(_) => self.live.wake_for_raw(),
        }
        done
    }
}

/// The open logs: one [`AttemptLog`] per attempt at a time, opened at its first use and closed when unused.
pub struct Logs {
    attempts_dir: PathBuf,
    limits: LogLimits,
    open: sync::Mutex<HashMap<AttemptId, Arc<OnceCell<Arc<AttemptLog>>>>>,
    /// `None`: the database is of one home, and the logs stay on this host.
    copying: Option<Copying>,
}

impl Logs {
    /// `attempts_dir` holds a folder for each attempt, named by its id.
    pub fn new(attempts_dir: PathBuf, limits: LogLimits) -> Self {
        Self { attempts_dir, limits, open: sync::Mutex::default(), copying: None }
    }

    /// Ships the logs to rows ([`keep_shipping`](Self::keep_shipping)), and brings the logs of attempts that
    /// were moved to this host from there. For a board that hosts share.
    #[must_use]
    pub fn copied_to(self, rows: Arc<dyn ShippedLogs>) -> Self {
        Self { copying: Some(Copying { rows, grown: Arc::new(Grown::default()) }), ..self }
    }

    /// The log of an attempt; `None` if the attempt has no folder on this host: nothing was ever written.
    pub async fn find(&self, attempt: AttemptId) -> Result<Option<Arc<AttemptLog>>, LogError> {
        // On this thread: to wake one of the pool takes longer than to look whether a folder exists.
        match if_there(std::fs::metadata(self.dir(attempt)))? {
            Some(_) => self.get(attempt).await.map(Some),
            None => Ok(None),
        }
    }

    fn dir(&self, attempt: AttemptId) -> PathBuf {
        self.attempts_dir.join(attempt.to_string())
    }

    /// The log of an attempt, opened if it is not open. Where logs are shipped, first brings the copy into
    /// the attempt's folder if that has more. Calls at the same time open the log once.
    pub async fn get(&self, attempt: AttemptId) -> Result<Arc<AttemptLog>, LogError> {
        let slot = {
            let mut open = self.open.lock().await;
            // A slot that someone holds is about to be filled, and a log that someone holds may be written
            // to: both stay. If one were dropped, the same folder would get a second writer.
            if open.len() > KEPT {
                let is_used = |log: &Arc<AttemptLog>| Arc::strong_count(log) > 1;
                open.retain(|_, slot| {
                    Arc::strong_count(slot) > 1 || slot.get().is_some_and(is_used)
                });
            }
            Arc::clone(open.entry(attempt).or_default())
        };
        let opened = slot.get_or_try_init(async || {
            let (dir, limits) = (self.dir(attempt), self.limits);
            if let Some(Copying { rows, .. }) = &self.copying {
                shipped::bring(&**rows, &dir, attempt, limits).await?;
            }
            let grown = self.copying.as_ref().map(|it| Arc::clone(&it.grown));
            let grown = grown.map(|grown| Growth { grown, attempt });
            blocking(move || AttemptLog::open_copied(&dir, limits, grown)).await.map(Arc::new)
        });
        opened.await.cloned()
    }
}

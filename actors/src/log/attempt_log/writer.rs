//! The one writer of an attempt's channels. After an error a writer is opened again, from the files.
//!
//! ```text
//!  of a process   begin ──▶ pump … ──▶ finish ──▶ pump …: each line of a leftover process
//!                   │                    │         is a `system_message`
//!                   opening events       closing events, all of it synced
//!
//!  of a batch     lines of the spool ─▶ a number each (raw.idx on file) ─▶ raw entries are shown
//!                   ─▶ the normalizer ─▶ normalized entries on file ─▶ these are shown, readers wake
//!                   ─▶ a checkpoint, if one is due ─▶ retention, if it is over its limit
//! ```
//!
//! The order of a batch is what a restart relies on: an entry that a reader has seen is on file, and an
//! entry on file names its origin, so that the next writer derives the rest and skips what is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::AttemptLog;
use crate::event::{Event, NormalizedEntry, RawEntry, Timestamp};
use crate::executor::{Normalizer, Observed, PlainLines};
use crate::failpoint;
use crate::ids::{ApprovalId, ProcessId};
use crate::log::checkpoint::{Checkpoint, Facts, Progress};
use crate::log::live::{Live, Streamed};
use crate::log::normalized::{Draft, NormalizedWriter, Origin};
use crate::log::raw::{RawWriter, process_dir};
use crate::log::source::{ALL, ProcessLines, ReadStep};
use crate::log::spool::read::SpoolReader;
use crate::log::{LogError, LogLimits};

/// Bytes of a batch: so few that what is made of them stays in the processor's cache.
const BATCH_BYTES: u64 = 32 * 1024;
/// Bytes of one `pump`: after so many the caller may do something else.
const PUMP_BYTES: u64 = 1024 * 1024;
/// Bytes after which a checkpoint is due: a restart may have to normalize as many raw bytes again.
const CHECKPOINT_BYTES: u64 = 8 * 1024 * 1024;

/// The state behind the changes of an [`AttemptLog`]: what of each process is on file.
pub struct LogWriter {
    dir: PathBuf,
    live: Arc<Live>,
    pub raw: RawWriter,
    pub normalized: NormalizedWriter,
    /// Boxed, because a node of a B-tree has room for eleven values, and most attempts have one or two.
    processes: BTreeMap<ProcessId, Box<LoggedProcess>>,
    /// Number of the first raw entry of this host, where another host had the attempt before.
    raw_from: Option<u64>,
    /// Raw bytes that were read since the last checkpoint.
    unsaved: u64,
}

/// A process of the attempt as its log knows it.
struct LoggedProcess {
    progress: Progress,
    normalizer: Option<Box<dyn Normalizer>>,
    /// `Some` once the normalizer has been given all that is numbered.
    lines: Option<ProcessLines>,
}

/// What a normalizer has made of some raw entries, without what is on file already.
#[derive(Default)]
struct Said {
    drafts: Vec<Draft>,
    streamed: Streamed,
}

impl AttemptLog {
    /// Begins a process: `opening` are its first entries in the normalized channel. Repeated with the same
    /// `turn` and `opening`, as by a daemon that adopts the process, it adds only what is not on file yet.
    pub fn begin(
        &self,
        id: ProcessId,
        turn: u32,
        normalizer: Box<dyn Normalizer>,
        opening: Vec<(Timestamp, Event)>,
    ) -> Result<(), LogError> {
        self.write(|log| {
            if !log.processes.contains_key(&id) {
                let (given, normalizer) = (log.raw.next, normalizer.checkpoint());
                let progress = Progress { turn, given, normalizer, ..Progress::default() };
                log.processes.insert(id, Box::new(LoggedProcess::new(progress)));
                log.live.add_process(id);
                log.save(false)?;
            }
            let process = log.process(id)?;
            process.normalize_with(normalizer);
            let on_file = process.progress.opening;
            let drafts = process.drafts(id, Origin::Opening, opening.into_iter().skip(on_file));
            log.commit(id, Said { drafts, ..Said::default() })?;
            log.attach(id)
        })
    }

    /// Reads what the process's spool holds beyond what was read, about 1 MiB at most. Returns whether
    /// there is more. After [`finish`](Self::finish), each line of a leftover process becomes a
    /// `system_message`.
    ///
    /// # Errors
    /// `NotBegun` for a process that neither was begun nor has finished.
    pub fn pump(&self, id: ProcessId) -> Result<bool, LogError> {
        self.write(|log| {
            log.attach(id)?;
            let mut taken = 0;
            while taken < PUMP_BYTES {
                let (bytes, is_idle) = log.take_in(id, ALL)?;
                if is_idle {
                    return Ok(false);
                }
                taken += bytes;
            }
            Ok(true)
        })
    }

    /// The process has ended, and has written so many bytes (stdout, stderr): reads the rest and appends the
    /// closing events. All of it is on the disk when this returns. Further calls change nothing.
    pub fn finish(
        &self,
        id: ProcessId,
        lengths: (u64, u64),
        ended_at: Timestamp,
        closing: impl FnOnce() -> Vec<(Timestamp, Event)>,
    ) -> Result<(), LogError> {
        self.write(|log| {
            log.attach(id)?;
            if log.process(id)?.progress.finished {
                return Ok(());
            }
            while !log.take_in(id, lengths.into())?.1 {}
            if let Some(lines) = log.processes.get_mut(&id).and_then(|it| it.lines.as_mut()) {
                let tails = log.raw.end(id, lines)?;
                log.live.show_raw(log.raw.next);
                log.normalize(id, tails)?;
            }
            let process = log.process(id)?;
            let mut said = process.end(id, ended_at);
            let closing = closing().into_iter().skip(process.progress.closing);
            said.drafts.extend(process.drafts(id, Origin::Closing, closing));
            log.commit(id, said)?;
            log.process(id)?.progress.finished = true;
            log.save(true)?;
            log.process(id)?.normalizer = Some(Box::new(PlainLines));
            log.settle()
        })?;
        self.live.ended();
        Ok(())
    }

    /// Appends an entry of the daemon's own to the normalized channel, whole or not at all. Unlike a
    /// verdict, it is appended again when the call is repeated.
    pub fn append(
        &self,
        process: ProcessId,
        turn: u32,
        at: Timestamp,
        event: Event,
    ) -> Result<(), LogError> {
        let drafts = vec![(Origin::Daemon, draft(process, turn, at, event))];
        self.write(|log| {
            log.commit(process, Said { drafts, ..Said::default() })?;
            log.settle()
        })
    }

    /// Appends the verdict on an approval to the normalized channel; for each approval once, so that the
    /// call can be repeated after a crash.
    pub fn append_verdict(
        &self,
        id: ProcessId,
        approval: ApprovalId,
        at: Timestamp,
        event: Event,
    ) -> Result<(), LogError> {
        self.write(|log| {
            let process = log.process(id)?;
            if process.progress.verdicts.contains(&approval) {
                return Ok(());
            }
            let verdict = std::iter::once((at, event));
            let drafts = process.drafts(id, Origin::Verdict(approval), verdict);
            log.commit(id, Said { drafts, ..Said::default() })?;
            log.settle()
        })
    }
}

impl LogWriter {
    /// Finds from the files how far both channels and all processes are, and shows that to the readers.
    pub fn open(dir: &Path, limits: LogLimits, live: Arc<Live>) -> Result<Self, LogError> {
        fs::create_dir_all(dir)?;
        let Checkpoint { blocks, normalized: from, processes: mut known, raw_from, .. } =
            Checkpoint::read(dir)?;
        let normalized =
            NormalizedWriter::open(dir, limits.spool_max_bytes, from, |stored, origin| {
                if origin != Origin::Daemon {
                    let new = || Progress { turn: stored.turn, ..Progress::default() };
                    known.entry(stored.process).or_insert_with(new).note(origin);
                }
            })?;
        let mut positions = known.iter().map(|(id, known)| (*id, known.position)).collect();
        let mut raw = RawWriter::open(dir, blocks, &mut positions)?;
        raw.next = raw.next.max(raw_from.unwrap_or_default());
        for (process, position) in positions {
            known.entry(process).or_default().position = position;
        }
        if raw.blocks()? < blocks {
            tracing::error!(dir = %dir.display(), "raw.idx has lost its end, which is made anew");
            for (process, Progress { position, finished, .. }) in &mut known {
                *position = raw.number_again(*process, *position, *finished)?;
            }
        }
        let processes: BTreeMap<_, _> =
            known.into_iter().map(|(id, it)| (id, Box::new(LoggedProcess::new(it)))).collect();
        let mut last_activity = None;
        for process in processes.keys() {
            let last = SpoolReader::open(&process_dir(dir, *process)).last_record()?;
            last_activity = last.map(|it| Timestamp::from_millis(it.at_ms)).max(last_activity);
        }
        let ids = processes.keys().copied().collect();
        live.reset(raw.next, normalized.end.entry, ids, last_activity);
        live.show_whole(normalized.is_whole());
        Ok(Self { dir: dir.to_owned(), live, raw, normalized, processes, raw_from, unsaved: 0 })
    }

    /// Takes the normalizers of a writer that failed: they can't be made from the files.
    pub fn inherit(&mut self, failed: &mut Self) {
        for (id, process) in &mut failed.processes {
            if let Some(heir) = self.processes.get_mut(id) {
                heir.normalizer = process.normalizer.take();
            }
        }
    }

    fn process(&mut self, id: ProcessId) -> Result<&mut LoggedProcess, LogError> {
        Ok(self.processes.get_mut(&id).ok_or(LogError::NotBegun(id))?)
    }

    /// Makes a process ready to be read. Its normalizer gets the raw entries that were numbered since the
    /// checkpoint; what it makes of them is filed unless it is on file.
    fn attach(&mut self, id: ProcessId) -> Result<(), LogError> {
        let dir = process_dir(&self.dir, id);
        let process = self.process(id)?;
        if process.lines.is_some() {
            return Ok(());
        }
        if process.progress.finished {
            process.normalizer = Some(Box::new(PlainLines));
        }
        let normalizer = process.normalizer.as_mut().ok_or(LogError::NotBegun(id))?;
        if !process.progress.normalizer.is_null() {
            normalizer.restore(&process.progress.normalizer);
        }
        let lines = ProcessLines::at(&dir, process.progress.position);
        let mut next = process.progress.given;
        let raw = self.raw.reader();
        while next < self.raw.next {
            let (block, entries) = raw.locate(next, self.raw.next)?;
            if block.process == id {
                match raw.read(&block, entries.clone()) {
                    Ok(mut read) => {
                        read.retain(|entry| entry.entry_index >= next);
                        self.normalize(id, read)?;
                    }
                    // Retention removed this block's bytes: the normalizer can't get them any more.
                    Err(LogError::Outrun) => {}
                    Err(error) => return Err(error),
                }
            }
            next = entries.end.max(next + 1);
        }
        self.process(id)?.lines = Some(lines);
        Ok(())
    }

    /// Reads a batch. Returns how many bytes it has, and whether there is nothing more.
    fn take_in(&mut self, id: ProcessId, until: [u64; 2]) -> Result<(u64, bool), LogError> {
        let lines = self.processes.get_mut(&id).and_then(|it| it.lines.as_mut());
        let lines = lines.ok_or(LogError::NotBegun(id))?;
        let (mut entries, mut bytes, mut is_idle) = (Vec::new(), 0, false);
        while bytes < BATCH_BYTES && !is_idle {
            let before = lines.position();
            match lines.next_step(until)? {
                ReadStep::Line(line) => {
                    bytes += line.line.len;
                    entries.push(self.raw.number(id, before, line)?);
                }
                ReadStep::Gap => self.raw.gap(id, lines.position())?,
                ReadStep::Idle => is_idle = true,
            }
        }
        self.live.active(lines.last_at()?);
        self.live.show_raw(self.raw.next);
        failpoint::hit("lines", "shown");
        self.normalize(id, entries)?;
        self.unsaved += bytes;
        self.settle()?;
        Ok((bytes, is_idle))
    }

    fn normalize(&mut self, id: ProcessId, entries: Vec<RawEntry>) -> Result<(), LogError> {
        let said = self.process(id)?.normalize(id, entries);
        self.commit(id, said)
    }

    /// Files what a normalizer said, notes the origins, and then shows the entries.
    fn commit(&mut self, id: ProcessId, said: Said) -> Result<(), LogError> {
        let origins: Vec<Origin> = said.drafts.iter().map(|(origin, _)| *origin).collect();
        let entries = self.normalized.append(said.drafts)?;
        failpoint::hit("entries", "filed");
        if let Some(process) = self.processes.get_mut(&id) {
            for origin in origins {
                process.progress.note(origin);
            }
        }
        self.live.show_normalized(id, entries, said.streamed);
        Ok(())
    }

    /// Writes a checkpoint if one is due, and always one before retention drops entries: without it a
    /// restart would look for its place in entries that no longer exist.
    fn settle(&mut self) -> Result<(), LogError> {
        if self.normalized.is_over_limit() {
            self.save(false)?;
            let dropped = self.normalized.drop_oldest();
            self.live.show_whole(self.normalized.is_whole());
            dropped?;
        } else if self.unsaved >= CHECKPOINT_BYTES {
            self.save(false)?;
        }
        Ok(())
    }

    /// Writes a checkpoint of all processes. `durably`: both channels are synced first, so that the
    /// checkpoint is never ahead of them on the disk.
    fn save(&mut self, durably: bool) -> Result<(), LogError> {
        if durably {
            self.raw.sync()?;
            self.normalized.sync()?;
        }
        for process in self.processes.values_mut() {
            process.update_progress(self.raw.next);
        }
        let processes =
            self.processes.iter().map(|(id, process)| (*id, process.progress.clone())).collect();
        let mut checkpoint = Checkpoint::new(self.raw.blocks()?, self.normalized.end, processes);
        checkpoint.raw_from = self.raw_from;
        checkpoint.write(&self.dir, durably)?;
        self.unsaved = 0;
        Ok(())
    }
}

impl LoggedProcess {
    fn new(progress: Progress) -> Self {
        Self { progress, normalizer: None, lines: None }
    }

    /// Brings the progress up to date: the process has been given all of its raw entries below `next`.
    fn update_progress(&mut self, next: u64) {
        if let (Some(lines), Some(normalizer)) = (&self.lines, &self.normalizer) {
            self.progress.position = lines.position();
            self.progress.given = next;
            // What a finished one last knew is kept: it may be asked for again.
            let checkpoint = normalizer.checkpoint();
            if !checkpoint.is_null() {
                self.progress.normalizer = checkpoint;
            }
            self.progress.made = None;
        }
    }

    /// Events of this process's turn as entries that have no number yet.
    fn drafts(
        &self,
        id: ProcessId,
        origin: Origin,
        events: impl Iterator<Item = (Timestamp, Event)>,
    ) -> Vec<Draft> {
        let turn = self.progress.turn;
        events.map(|(at, event)| (origin, draft(id, turn, at, event))).collect()
    }

    /// Gives raw entries to the normalizer. Skips the results that are on file, of which there are some
    /// only after a restart.
    fn normalize(&mut self, id: ProcessId, entries: Vec<RawEntry>) -> Said {
        let mut said = Said { drafts: Vec::with_capacity(entries.len()), ..Said::default() };
        let mut out = Vec::new();
        for entry in entries {
            let RawEntry { entry_index, at, .. } = entry;
            if let Some(normalizer) = &mut self.normalizer {
                normalizer.raw(entry, &mut out);
            }
            let on_file = self.progress.made_of(entry_index);
            let Progress { turn, facts, .. } = &mut self.progress;
            let events = out.drain(..).filter_map(|one| said_by(one, &mut said.streamed, facts));
            let origin = Origin::Raw(entry_index);
            said.drafts
                .extend(events.skip(on_file).map(|event| (origin, draft(id, *turn, at, event))));
            self.progress.last_at = Some(at);
        }
        said
    }

    /// Sets the normalizer of a process that is begun. It continues from the state of an earlier one. For a
    /// finished process it is only restored: the caller shares its summary, and leftovers are read as plain
    /// lines.
    fn normalize_with(&mut self, mut normalizer: Box<dyn Normalizer>) {
        if self.progress.finished {
            if !self.progress.normalizer.is_null() {
                normalizer.restore(&self.progress.normalizer);
            }
            return;
        }
        if let Some(earlier) = &self.normalizer {
            normalizer.restore(&earlier.checkpoint());
        }
        self.normalizer = Some(normalizer);
    }

    /// What the normalizer makes of the process's end, at the time of the last raw entry.
    fn end(&mut self, id: ProcessId, ended_at: Timestamp) -> Said {
        let mut said = Said::default();
        let mut out = Vec::new();
        if let Some(normalizer) = &mut self.normalizer {
            normalizer.end(&mut out);
        }
        let at = self.progress.last_at.unwrap_or(ended_at);
        let Progress { end, facts, .. } = &mut self.progress;
        let events = out.into_iter().filter_map(|one| said_by(one, &mut said.streamed, facts));
        let events: Vec<_> = events.skip(*end).map(|event| (at, event)).collect();
        said.drafts = self.drafts(id, Origin::End, events.into_iter());
        said.streamed = Streamed::Ended;
        said
    }
}

fn draft(
    execution_process_id: ProcessId,
    turn: u32,
    at: Timestamp,
    event: Event,
) -> NormalizedEntry {
    NormalizedEntry { entry_index: 0, at, execution_process_id, turn, event }
}

/// The event that becomes an entry; `None` for anything else, which is noted where it belongs.
fn said_by(observed: Observed, streamed: &mut Streamed, facts: &mut Facts) -> Option<Event> {
    match observed {
        Observed::Entry(event) => return Some(event),
        Observed::InProgress(message) => {
            *streamed = message.map_or(Streamed::Ended, Streamed::Begun);
        }
        fact => facts.note(&fact),
    }
    None
}

//! Derives the normalized channel again from the raw one and compares the result with the file. The
//! daemon's own entries, and the order of the entries of several processes, are taken from the file; what a
//! process's normalizer makes has to be the same byte for byte.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

use super::LogError;
use super::checkpoint::Checkpoint;
use super::normalized::{OnFile, Origin, Stored};
use super::raw::{RawEntries, RawReader};
use super::ring::Entry;
use super::source::ALL;
use crate::event::{Event, NormalizedEntry, Timestamp};
use crate::executor::{Normalizer, Observed, PlainLines};
use crate::ids::ProcessId;

/// The result of a replay.
#[derive(Debug)]
pub enum Replay {
    /// So many entries were compared or are the daemon's, and all are the same.
    Same(u64),
    Differs(Difference),
    /// Retention removed raw entries of this process that are needed.
    Gone(ProcessId),
}

/// The first entry that differs, under the number that it has on file.
#[derive(Debug)]
pub struct Difference {
    pub entry_index: u64,
    /// `None`: the replay gives an entry, and nothing is on file for it.
    pub on_file: Option<Entry>,
    /// `None`: the replay gives nothing for what is on file.
    pub derived: Option<Entry>,
}

/// Replays the log in an attempt's folder, of one process or of all. `normalizer` makes one for a process;
/// `show` gets every entry that is the same or the daemon's, and an error of it ends the replay.
pub fn replay(
    attempt_dir: &Path,
    only: Option<ProcessId>,
    mut normalizer: impl FnMut(ProcessId) -> io::Result<Box<dyn Normalizer>>,
    mut show: impl FnMut(Entry) -> io::Result<()>,
) -> Result<Replay, LogError> {
    if !attempt_dir.try_exists()? {
        return Ok(Replay::Same(0));
    }
    let ends = ends(attempt_dir)?;
    let raw = RawReader::open(attempt_dir)?;
    let known = Checkpoint::read(attempt_dir)?.processes;
    let mut processes: BTreeMap<ProcessId, ReplayedProcess> = BTreeMap::new();
    let mut file = OnFile::open(attempt_dir)?;
    let (mut count, mut is_cut) = (0, None);
    while let Some((stored, origin, entry)) = file.next_entry()? {
        let is_cut = *is_cut.get_or_insert(stored.entry_index > 0);
        let id = stored.process;
        if only.is_some_and(|only| only != id) {
            continue;
        }
        let process = match processes.entry(id) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let leftovers = ends.get(&id).copied();
                // Output of leftovers that was not read yet does not belong to the process: read it no
                // further than the log did.
                let known = known.get(&id).filter(|known| known.finished);
                let known = known.filter(|_| leftovers.is_none_or(|first| first == u64::MAX));
                let until = known.map_or(ALL, |known| known.position.read);
                let mut normalizer = normalizer(id)?;
                // What it says at the beginning are messages to the executor, and no entries.
                normalizer.begin(&mut Vec::new());
                slot.insert(ReplayedProcess {
                    raw: raw.entries(id, until),
                    normalizer,
                    leftovers,
                    drafts: VecDeque::new(),
                    last_at: None,
                    is_late: is_cut && origin != Origin::Opening,
                    has_ended: false,
                })
            }
        };
        match process.hold(&stored, origin, &entry) {
            Ok(None) => {}
            Ok(Some(difference)) => return Ok(Replay::Differs(difference)),
            Err(LogError::Outrun) => return Ok(Replay::Gone(id)),
            Err(error) => return Err(error),
        }
        show(entry)?;
        count += 1;
    }
    Ok(Replay::Same(count))
}

/// The processes that have ended, each with the first raw entry of its leftovers; `u64::MAX`: it has none.
fn ends(dir: &Path) -> Result<BTreeMap<ProcessId, u64>, LogError> {
    let mut ends: BTreeMap<ProcessId, u64> = BTreeMap::new();
    let mut file = OnFile::open(dir)?;
    while let Some((stored, origin, _)) = file.next_entry()? {
        match (origin, ends.get_mut(&stored.process)) {
            (Origin::Closing, None) => drop(ends.insert(stored.process, u64::MAX)),
            (Origin::Raw(raw), Some(first)) => *first = raw.min(*first),
            _ => {}
        }
    }
    Ok(ends)
}

/// A process whose output is derived again.
struct ReplayedProcess {
    raw: RawEntries,
    normalizer: Box<dyn Normalizer>,
    /// The first raw entry of leftovers, once the process has ended.
    leftovers: Option<u64>,
    drafts: VecDeque<(Origin, Option<Timestamp>, Event)>,
    last_at: Option<Timestamp>,
    /// Its first entries are no longer held, so derived entries are skipped until one is on file.
    is_late: bool,
    has_ended: bool,
}

impl ReplayedProcess {
    /// Derives what should be on file next, and compares. `Some`: something else was derived.
    fn hold(
        &mut self,
        stored: &Stored,
        origin: Origin,
        on_file: &Entry,
    ) -> Result<Option<Difference>, LogError> {
        let entry_index = stored.entry_index;
        match origin {
            Origin::Opening | Origin::Daemon | Origin::Verdict(_) => return Ok(None),
            Origin::Closing => {
                self.finish()?;
                if self.is_late {
                    self.drafts.clear();
                }
                let derived = self.next(stored)?.map(|(_, entry)| entry);
                let differs = |derived| Difference { entry_index, on_file: None, derived };
                return Ok(derived.map(Some).map(differs));
            }
            Origin::Raw(raw) => self.give(raw.saturating_add(1))?,
            Origin::End => self.finish()?,
        }
        loop {
            let derived = self.next(stored)?;
            if derived.as_ref().is_some_and(|(of, it)| *of == origin && it.json() == on_file.json())
            {
                self.is_late = false;
                return Ok(None);
            }
            if !self.is_late || derived.is_none() {
                let (on_file, derived) = (Some(on_file.clone()), derived.map(|(_, entry)| entry));
                return Ok(Some(Difference { entry_index, on_file, derived }));
            }
        }
    }

    /// The next derived entry, as it would be on file in the place of `stored`.
    fn next(&mut self, stored: &Stored) -> Result<Option<(Origin, Entry)>, LogError> {
        let Some((origin, at, event)) = self.drafts.pop_front() else { return Ok(None) };
        let Stored { entry_index, process: execution_process_id, turn, .. } = *stored;
        let at = at.unwrap_or(stored.at);
        let entry = NormalizedEntry { entry_index, at, execution_process_id, turn, event };
        Ok(Some((origin, Entry::new(entry_index, &entry)?)))
    }

    /// Gives the normalizer its raw entries below this number.
    fn give(&mut self, below: u64) -> Result<(), LogError> {
        while let Some(entry) = self.raw.next_below(below)? {
            let is_leftovers = self.leftovers.is_some_and(|first| entry.entry_index >= first);
            if is_leftovers && self.has_ended {
                self.normalizer = Box::new(PlainLines);
            }
            let (origin, at) = (Origin::Raw(entry.entry_index), Some(entry.at));
            let mut out = Vec::new();
            self.normalizer.raw(entry, &mut out);
            self.take(origin, at, out);
            self.last_at = at;
        }
        Ok(())
    }

    /// Gives the normalizer all that the process wrote before its end, and then the end.
    fn finish(&mut self) -> Result<(), LogError> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        self.give(self.leftovers.unwrap_or(u64::MAX))?;
        let mut out = Vec::new();
        self.normalizer.end(&mut out);
        self.take(Origin::End, self.last_at, out);
        Ok(())
    }

    fn take(&mut self, origin: Origin, at: Option<Timestamp>, out: Vec<Observed>) {
        self.drafts.extend(out.into_iter().filter_map(|one| match one {
            Observed::Entry(event) => Some((origin, at, event)),
            _ => None,
        }));
    }
}

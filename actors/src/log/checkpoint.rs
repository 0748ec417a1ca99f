//! What a restart needs so that it continues near the end of the log instead of from its beginning: one
//! small file, replaced as a whole. It only saves work; without it all is derived from the other files
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::LogError;
use super::normalized::{Mark, Origin};
use super::source::Position;
use crate::blocking::if_there;
use crate::event::{Timestamp, TokenUsage};
use crate::executor::{Observed, TurnEnded};
use crate::failpoint;
use crate::ids::{ApprovalId, ProcessId};

const FILE: &str = "checkpoint.json";
const VERSION: u32 = 1;

/// How far both channels and all processes were at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    v: u32,
    /// Records that `raw.idx` had.
    pub blocks: u64,
    /// Where the normalized channel ended.
    pub normalized: Mark,
    pub processes: BTreeMap<ProcessId, Progress>,
    /// Number of the first raw entry of this log; not 0 where another host had the attempt before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_from: Option<u64>,
}

/// How far one process's output was read, numbered and normalized.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    pub turn: u32,
    /// Where its raw entries that have a number end in its spool.
    pub position: Position,
    /// Its normalizer had been given its raw entries below this number …
    pub given: u64,
    /// … and then was in this state.
    pub normalizer: serde_json::Value,
    /// The newest later raw entry of which entries are on file; a checkpoint clears it.
    pub made: Option<Made>,
    /// The time of the last raw entry that the normalizer got.
    pub last_at: Option<Timestamp>,
    pub facts: Facts,
    /// How many entries of each of these three origins are on file.
    pub opening: usize,
    pub end: usize,
    pub closing: usize,
    /// Approvals whose verdict is on file.
    #[serde(default)]
    pub verdicts: BTreeSet<ApprovalId>,
    /// Its end is on file. Lines that come later are written by processes that it left behind.
    pub finished: bool,
}

/// A raw entry of which normalized entries are on file, and how many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub raw: u64,
    pub entries: usize,
}

/// The newest of each thing that a normalizer observed beside entries. Nothing reads them, as the
/// executor's own normalizer keeps them, too; they are a part of the file's format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    executor_session: Option<String>,
    usage: Option<TokenUsage>,
    turn_ended: Option<TurnEnded>,
}

impl Checkpoint {
    /// A checkpoint of this version, of a log that began on this host.
    pub fn new(blocks: u64, normalized: Mark, processes: BTreeMap<ProcessId, Progress>) -> Self {
        Self { v: VERSION, blocks, normalized, processes, raw_from: None }
    }

    /// The checkpoint in an attempt's folder; one of the log's beginning where there is none, or a damaged
    /// one.
    ///
    /// # Errors
    /// `Damaged` for a version that this program does not know: it must not write over that log.
    pub fn read(dir: &Path) -> Result<Self, LogError> {
        let path = dir.join(FILE);
        let beginning = || Self::new(0, Mark::default(), BTreeMap::new());
        let Some(bytes) = if_there(fs::read(&path))? else { return Ok(beginning()) };
        let path = path.display();
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(Self { v, .. }) if v != VERSION => {
                Err(LogError::Damaged(format!("{path}: version {v} is not known")))
            }
            Ok(checkpoint) => Ok(checkpoint),
            // A damaged checkpoint costs only work: the other files hold all of it.
            Err(_) => {
                tracing::error!(%path, "the checkpoint is damaged; the log is read from its beginning");
                Ok(beginning())
            }
        }
    }

    /// Replaces the file, whole or not at all. `durably`: the new name is on the disk when this returns,
    /// too.
    pub fn write(&self, dir: &Path, durably: bool) -> io::Result<()> {
        let temporary = dir.join(".checkpoint.json.tmp");
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        // Always, not only if `durably`: a rename may reach the disk before the content of the file.
        file.sync_data()?;
        failpoint::hit("checkpoint", "written");
        fs::rename(&temporary, dir.join(FILE))?;
        if durably { File::open(dir)?.sync_all() } else { Ok(()) }
    }
}

impl Progress {
    /// Counts an entry that is on file.
    pub fn note(&mut self, origin: Origin) {
        match origin {
            Origin::Raw(raw) => {
                let before =
                    self.made.filter(|made| made.raw == raw).map_or(0, |made| made.entries);
                self.made = Some(Made { raw, entries: before + 1 });
            }
            Origin::End => self.end += 1,
            Origin::Opening => self.opening += 1,
            Origin::Closing => self.closing += 1,
            Origin::Verdict(approval) => drop(self.verdicts.insert(approval)),
            Origin::Daemon => {}
        }
    }

    /// How many entries of this raw entry are on file: results to skip. `usize::MAX`, that is all, for raw
    /// entries before the newest one that is known.
    pub fn made_of(&self, raw: u64) -> usize {
        self.made.map_or(0, |made| match raw.cmp(&made.raw) {
            std::cmp::Ordering::Less => usize::MAX,
            std::cmp::Ordering::Equal => made.entries,
            std::cmp::Ordering::Greater => 0,
        })
    }
}

impl Facts {
    /// Keeps a fact of one of the three kinds.
    pub fn note(&mut self, observed: &Observed) {
        match observed {
            Observed::ExecutorSession(id) => self.executor_session = Some(id.clone()),
            Observed::Usage(usage) => self.usage = Some(*usage),
            Observed::TurnEnded(ended) => self.turn_ended = Some(ended.clone()),
            _ => {}
        }
    }
}

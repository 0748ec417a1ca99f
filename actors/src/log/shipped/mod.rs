//! Copies of the logs, in rows that outlive the host: of a board that hosts share. Each daemon ships
//! what its attempts' logs have on file and the rows do not have yet, as the lines are on file.
//! Another host serves pages from the rows when an attempt's own host is lost, and goes on with the
//! log when the attempt is moved to it.
//!
//! Whose log a copy is of is said by the proof of a home: what a home ships takes effect only where the
//! copy is of its own log and ends where the shipment begins, so nothing is shipped twice, and
//! nothing of a host whose attempt has been moved.

mod bring;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde::Deserialize;
use tokio::sync::Notify;

pub use bring::bring;
pub use page::{joined, page};

use super::LogError;
use super::normalized::Mark;
use super::ring::Entry;
use crate::blocking::lock;
use crate::event::{Channel, Timestamp};
use crate::ids::AttemptId;
use crate::refusal::Refusal;

/// Bytes of text at which a chunk is full.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// What a larger chunk can't be: one entry may be larger than [`CHUNK_BYTES`].
const LARGEST: usize = 256 * 1024 * 1024;
const LEVEL: i32 = 3;

/// The rows.
#[async_trait]
pub trait ShippedLogs: Send + Sync {
    /// The attempts that this host has.
    async fn of_this_host(&self) -> Result<Vec<AttemptId>, Refusal>;

    /// Where the copies of these attempts' logs stand.
    async fn standing(&self, attempts: &[AttemptId]) -> Result<CopyState, Refusal>;

    /// The next chunks that hold one of these entries, from the oldest or from the newest on; none only
    /// if no further one does.
    async fn chunks(
        &self,
        attempt: AttemptId,
        channel: Channel,
        entries: Range<u64>,
        newest_first: bool,
    ) -> Result<Vec<Chunk>, Refusal>;

    /// Adds to the copies. A shipment takes effect whole or not at all; not where its attempt is on
    /// another host, or its copy is not as it was `before`. Returns how many have taken effect.
    async fn ship(&self, shipments: &[Shipment]) -> Result<usize, Refusal>;
}

/// Where the copies of some attempts' logs stand.
#[derive(Clone, Debug, Default)]
pub struct CopyState {
    /// The proof of this daemon's home.
    pub home: String,
    /// Which of the attempts this host has.
    pub here: BTreeSet<AttemptId>,
    copies: BTreeMap<AttemptId, Vec<Shipped>>,
}

impl CopyState {
    pub fn new(home: String, here: BTreeSet<AttemptId>, all: Vec<Shipped>) -> Self {
        let mut copies: BTreeMap<_, Vec<Shipped>> = BTreeMap::new();
        for copy in all {
            copies.entry(copy.attempt_id).or_default().push(copy);
        }
        Self { home, here, copies }
    }

    pub fn of(&self, attempt: AttemptId, channel: Channel) -> Option<&Shipped> {
        self.copies.get(&attempt)?.iter().find(|copy| copy.channel == channel)
    }
}

/// The copy of one channel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Shipped {
    pub attempt_id: AttemptId,
    pub channel: Channel,
    /// The host whose log it is of, and the proof of its home.
    pub host: String,
    pub home: String,
    /// It has the entries from this number on …
    pub oldest: u64,
    /// … to before this one, where the text is at this offset.
    pub next_entry: u64,
    pub next_offset: u64,
    pub last_activity_at: Option<Timestamp>,
}

impl Shipped {
    pub fn end(&self) -> Mark {
        Mark { entry: self.next_entry, offset: self.next_offset }
    }
}

/// What is added to the copy of a channel.
#[derive(Clone, Debug)]
pub struct Shipment {
    pub attempt_id: AttemptId,
    pub channel: Channel,
    /// The copy as it was, if there was one.
    pub before: Option<Shipped>,
    /// The number of the oldest entry that is to be held.
    pub oldest: u64,
    pub next: Mark,
    pub last_activity_at: Option<Timestamp>,
    pub chunks: Vec<Chunk>,
}

/// A run of entries as they are on file, compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub first: Mark,
    pub entries: u64,
    /// Length of the text.
    pub bytes: u64,
    /// A frame of zstd.
    pub data: Vec<u8>,
}

impl Chunk {
    /// Of lines, each with its end.
    pub fn of(first: Mark, entries: u64, text: &[u8]) -> io::Result<Self> {
        let data = zstd::bulk::compress(text, LEVEL)?;
        Ok(Self { first, entries, bytes: text.len() as u64, data })
    }

    /// Behind its last entry.
    pub fn end(&self) -> Mark {
        let Mark { entry, offset } = self.first;
        Mark { entry: entry + self.entries, offset: offset + self.bytes }
    }

    pub fn text(&self) -> Result<Vec<u8>, LogError> {
        let size = usize::try_from(self.bytes).ok().filter(|size| *size <= LARGEST);
        let text = size.and_then(|size| zstd::bulk::decompress(&self.data, size).ok());
        let text = text.filter(|text| text.len() as u64 == self.bytes);
        text.ok_or_else(|| {
            LogError::Damaged(format!("the copy from entry {} on", self.first.entry))
        })
    }

    fn entries(&self) -> Result<Vec<Entry>, LogError> {
        let text = String::from_utf8(self.text()?).map_err(io::Error::other)?;
        let entry = |(index, line): (u64, &str)| {
            // In the JSON there is no bare tab.
            let json = line.split_once('\t').map_or(line, |(json, _)| json);
            Ok(Entry::from_json(index, json.to_owned())?)
        };
        (self.first.entry..).zip(text.lines()).map(entry).collect()
    }
}

/// The attempts whose logs have grown since they were last shipped.
#[derive(Debug, Default)]
pub struct Grown {
    attempts: Mutex<BTreeSet<AttemptId>>,
    /// A process has ended: its last entries are shipped at once.
    pub ended: Notify,
}

impl Grown {
    pub fn note(&self, attempts: impl IntoIterator<Item = AttemptId>) {
        lock(&self.attempts).extend(attempts);
    }

    pub fn take(&self) -> Vec<AttemptId> {
        std::mem::take(&mut *lock(&self.attempts)).into_iter().collect()
    }
}

/// The growth of one attempt's log.
#[derive(Clone, Debug)]
pub struct Growth {
    pub grown: Arc<Grown>,
    pub attempt: AttemptId,
}

impl Growth {
    pub fn note(&self) {
        self.grown.note([self.attempt]);
    }

    pub fn ship_now(&self) {
        self.grown.ended.notify_one();
    }
}

//! Copies of the logs in rows that outlive the host, for a board that hosts share. Each daemon ships the
//! lines that its attempts' logs have on file and the rows do not have yet. Another host serves pages from
//! the rows when an attempt's own host is lost, and continues the log when the attempt is moved there.
//!
//! A copy belongs to the home whose log it is of, as the proof of that home says:
//!
//! ```text
//!  log of home A ─ship()─▶ copy of A ─ship()─▶ …                    while the attempt is on A's host
//!                             │ the attempt is moved to B's host, which calls `bring`
//!                             ▼
//!                          copy of B (first: an entry that says what may lack) ─ship()─▶ …
//!                             ╳ a late ship() of A: refused, the copy is not as it was `before`
//! ```
//!
//! A shipment takes effect only where the copy is of the shipping home's log and ends where the shipment
//! begins. So nothing is shipped twice, and nothing by a host whose attempt has been moved away.

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
/// Most bytes of text in a chunk; a larger size is damage. It is far above [`CHUNK_BYTES`] because one
/// entry may be larger than that.
const LARGEST: usize = 256 * 1024 * 1024;
/// The compression level of zstd.
const LEVEL: i32 = 3;

/// The rows that hold the copies. The store implements it.
#[async_trait]
pub trait ShippedLogs: Send + Sync {
    /// The attempts that are on this host.
    async fn of_this_host(&self) -> Result<Vec<AttemptId>, Refusal>;

    /// How far the copies of these attempts' logs are, and which of the attempts this host has.
    async fn standing(&self, attempts: &[AttemptId]) -> Result<CopyState, Refusal>;

    /// The next chunks that hold one of these entries, beginning with the oldest or with the newest. May
    /// return fewer than there are; an empty answer means that no chunk has one of these entries.
    async fn chunks(
        &self,
        attempt: AttemptId,
        channel: Channel,
        entries: Range<u64>,
        newest_first: bool,
    ) -> Result<Vec<Chunk>, Refusal>;

    /// Adds to the copies. Each shipment takes effect whole or not at all; it has no effect where its
    /// attempt is on another host, or its copy is not as it was `before`. Returns how many took effect.
    async fn ship(&self, shipments: &[Shipment]) -> Result<usize, Refusal>;
}

/// How far the copies of some attempts' logs are.
#[derive(Clone, Debug, Default)]
pub struct CopyState {
    /// The proof of this daemon's home.
    pub home: String,
    /// Which of the attempts this host has.
    pub here: BTreeSet<AttemptId>,
    copies: BTreeMap<AttemptId, Vec<Shipped>>,
}

impl CopyState {
    /// `all` are the copies of both channels, in any order.
    pub fn new(home: String, here: BTreeSet<AttemptId>, all: Vec<Shipped>) -> Self {
        let mut copies: BTreeMap<_, Vec<Shipped>> = BTreeMap::new();
        for copy in all {
            copies.entry(copy.attempt_id).or_default().push(copy);
        }
        Self { home, here, copies }
    }

    /// The copy of a channel; `None`: nothing of it was shipped yet.
    pub fn of(&self, attempt: AttemptId, channel: Channel) -> Option<&Shipped> {
        self.copies.get(&attempt)?.iter().find(|copy| copy.channel == channel)
    }
}

/// How far the copy of one channel is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Shipped {
    pub attempt_id: AttemptId,
    pub channel: Channel,
    /// The host whose log was copied, and the proof of that host's home.
    pub host: String,
    pub home: String,
    /// The copy has the entries from this number on …
    pub oldest: u64,
    /// … to before this one, where the text is at this offset.
    pub next_entry: u64,
    pub next_offset: u64,
    pub last_activity_at: Option<Timestamp>,
}

impl Shipped {
    /// Where the next shipment begins.
    pub fn end(&self) -> Mark {
        Mark { entry: self.next_entry, offset: self.next_offset }
    }
}

/// Entries to be added to the copy of a channel, right behind its end.
#[derive(Clone, Debug)]
pub struct Shipment {
    pub attempt_id: AttemptId,
    pub channel: Channel,
    /// The copy as the shipper knows it, if there was one: it must still be so.
    pub before: Option<Shipped>,
    /// The number of the oldest entry that the copy holds from now on; older ones are removed.
    pub oldest: u64,
    /// The copy's end after this shipment.
    pub next: Mark,
    pub last_activity_at: Option<Timestamp>,
    pub chunks: Vec<Chunk>,
}

/// A run of entries as they are on file, compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Number and offset of the first entry.
    pub first: Mark,
    /// How many entries there are.
    pub entries: u64,
    /// Bytes of the text before its compression.
    pub bytes: u64,
    /// A frame of zstd.
    pub data: Vec<u8>,
}

impl Chunk {
    /// A chunk of lines, each with its line ending.
    pub fn of(first: Mark, entries: u64, text: &[u8]) -> io::Result<Self> {
        let data = zstd::bulk::compress(text, LEVEL)?;
        Ok(Self { first, entries, bytes: text.len() as u64, data })
    }

    /// Number and offset behind the last entry.
    pub fn end(&self) -> Mark {
        let Mark { entry, offset } = self.first;
        Mark { entry: entry + self.entries, offset: offset + self.bytes }
    }

    /// The lines as they were on file.
    ///
    /// # Errors
    /// `Damaged` if they can't be decompressed to the length that is recorded.
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
            // JSON has no bare tab: what follows one is the entry's origin.
            let json = line.split_once('\t').map_or(line, |(json, _)| json);
            Ok(Entry::from_json(index, json.to_owned())?)
        };
        (self.first.entry..).zip(text.lines()).map(entry).collect()
    }
}

/// The attempts whose logs have grown since they were last shipped. `AttemptLog`s fill it; the shipping task
/// empties it.
#[derive(Debug, Default)]
pub struct Grown {
    attempts: Mutex<BTreeSet<AttemptId>>,
    /// Wakes the shipping task at once: a process has ended, and its last entries should not wait.
    pub ended: Notify,
}

impl Grown {
    /// Notes that these attempts' logs have more to ship; again and again costs nothing.
    pub fn note(&self, attempts: impl IntoIterator<Item = AttemptId>) {
        lock(&self.attempts).extend(attempts);
    }

    /// All attempts that were noted, each once; none is noted after that.
    pub fn take(&self) -> Vec<AttemptId> {
        std::mem::take(&mut *lock(&self.attempts)).into_iter().collect()
    }
}

/// Where one attempt's log notes that it has grown.
#[derive(Clone, Debug)]
pub struct Growth {
    pub grown: Arc<Grown>,
    pub attempt: AttemptId,
}

impl Growth {
    /// Notes that this attempt's log has more to ship.
    pub fn note(&self) {
        self.grown.note([self.attempt]);
    }

    /// Has the log shipped at once, instead of at the next round.
    pub fn ship_now(&self) {
        self.grown.ended.notify_one();
    }
}

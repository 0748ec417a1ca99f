//! Copies of logs: shipped from one home, read from the rows, and brought to another home.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::*;
use crate::blocking::lock;
use crate::ids::AttemptId;
use crate::log::Logs;
use crate::log::shipped::{self, Chunk, CopyState, Shipment, Shipped, ShippedLogs};
use crate::refusal::{Code, Refusal};

type Channels = BTreeMap<&'static str, (Shipped, Vec<Chunk>)>;

/// The rows of one attempt, which several homes share.
#[derive(Default)]
struct Table {
    /// The home that has the attempt.
    has_it: String,
    channels: Channels,
    fails: bool,
    /// Compressed bytes of each batch that took effect.
    batches: Vec<usize>,
}

/// The rows as one home sees them.
struct Rows {
    home: &'static str,
    attempt: AttemptId,
    table: Arc<Mutex<Table>>,
}

fn word(channel: Channel) -> &'static str {
    if channel == Channel::Raw { "raw" } else { "normalized" }
}

#[async_trait]
impl ShippedLogs for Rows {
    async fn of_this_host(&self) -> Result<Vec<AttemptId>, Refusal> {
        let is_here = lock(&self.table).has_it == self.home;
        Ok(is_here.then_some(self.attempt).into_iter().collect())
    }

    async fn standing(&self, _: &[AttemptId]) -> Result<CopyState, Refusal> {
        let here: BTreeSet<_> = self.of_this_host().await?.into_iter().collect();
        let copies = lock(&self.table).channels.values().map(|it| it.0.clone()).collect();
        Ok(CopyState::new(self.home.to_owned(), here, copies))
    }

    async fn chunks(
        &self,
        _: AttemptId,
        channel: Channel,
        entries: Range<u64>,
        newest_first: bool,
    ) -> Result<Vec<Chunk>, Refusal> {
        let table = lock(&self.table);
        let all = table.channels.get(word(channel)).map(|it| it.1.clone()).unwrap_or_default();
        let holds =
            |chunk: &Chunk| chunk.first.entry < entries.end && chunk.end().entry > entries.start;
        let mut found: Vec<Chunk> = all.into_iter().filter(holds).collect();
        if newest_first {
            found.reverse();
        }
        found.truncate(2);
        Ok(found)
    }

    async fn ship(&self, shipments: &[Shipment]) -> Result<usize, Refusal> {
        let mut table = lock(&self.table);
        if table.has_it != self.home {
            return Ok(0);
        }
        let mut bytes = 0;
        for it in shipments {
            let known = table.channels.get(word(it.channel)).map(|it| it.0.clone());
            assert_eq!(known, it.before, "nothing else ships");
            bytes += it.chunks.iter().map(|chunk| chunk.data.len()).sum::<usize>();
            let copy = Shipped {
                attempt_id: self.attempt,
                channel: it.channel,
                host: self.home.to_owned(),
                home: self.home.to_owned(),
                oldest: it.oldest,
                next_entry: it.next.entry,
                next_offset: it.next.offset,
                last_activity_at: it.last_activity_at,
            };
            let removed = table.channels.remove(word(it.channel));
            let mut chunks = removed.map(|it| it.1).unwrap_or_default();
            chunks.extend(it.chunks.clone());
            chunks.retain(|chunk| chunk.end().entry > it.oldest);
            table.channels.insert(word(it.channel), (copy, chunks));
        }
        table.batches.push(bytes);
        if table.fails {
            // The answer is lost.
            return Err(Refusal::new(Code::DbUnavailable, "gone"));
        }
        Ok(shipments.len())
    }
}

/// An attempt and the homes that have it one after the other.
struct Homes {
    attempt: AttemptId,
    table: Arc<Mutex<Table>>,
    folder: tempfile::TempDir,
}

impl Homes {
    fn new() -> Self {
        let (attempt, table) = (AttemptId::new(), Arc::default());
        Self { attempt, table, folder: tempfile::tempdir().unwrap() }
    }

    fn rows(&self, home: &'static str) -> Rows {
        Rows { home, attempt: self.attempt, table: Arc::clone(&self.table) }
    }

    fn dir(&self, home: &str) -> PathBuf {
        self.folder.path().join(home).join(self.attempt.to_string())
    }

    /// The logs of a home that has the attempt now, as after a start.
    fn at(&self, home: &'static str) -> Logs {
        lock(&self.table).has_it = home.to_owned();
        Logs::new(self.folder.path().join(home), NO_RING).copied_to(Arc::new(self.rows(home)))
    }

    fn copy(&self, channel: Channel) -> Option<Shipped> {
        lock(&self.table).channels.get(word(channel)).map(|it| it.0.clone())
    }

    /// All entries of a copy, as JSON.
    async fn read(&self, channel: Channel, limit: usize, max_bytes: usize) -> Vec<String> {
        let copy = self.copy(channel).unwrap();
        let mut all: Vec<String> = Vec::new();
        let mut after = -1;
        loop {
            let query = Query { limit, max_bytes, place: PagePosition::After(after) };
            let page = shipped::page(&self.rows("reader"), &copy, &query).await.unwrap();
            all.extend(page.entries.iter().map(|entry| entry.json().to_owned()));
            if !page.flags.has_more {
                return all;
            }
            after = i64::try_from(page.entries.last().unwrap().index).unwrap();
        }
    }

    /// Ships until the copy has everything.
    async fn ship(&self, logs: &Logs) {
        let grown = logs.get(self.attempt).await.unwrap();
        let ends = [grown.tip().normalized, grown.tip().raw].map(|it| it.map_or(0, |it| it + 1));
        let is_done = || {
            let next = |channel| self.copy(channel).map_or(0, |it| it.next_entry);
            [next(Channel::Normalized), next(Channel::Raw)] == ends
        };
        while !is_done() {
            logs.ship_grown().await;
        }
    }
}

/// A turn that says these lines, from its beginning to its end.
fn turn(log: &AttemptLog, dir: &Path, number: u32, lines: impl Iterator<Item = String>) {
    let process = ProcessId::new();
    let opening = vec![(at(1), note("it begins"))];
    log.begin(process, number, Box::<Sentences>::default(), opening).unwrap();
    let mut spool = SpoolFiles::new(dir, process);
    for line in lines {
        spool.write(Stream::Stdout, format!("{line}\n").as_bytes());
    }
    drain(log, process);
    log.finish(process, spool.lengths(), at(9), || vec![(at(9), note("it ends"))]).unwrap();
}

fn sentences(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("sentence {number} {}.", "x".repeat(number % 300)))
}

#[tokio::test]
async fn a_copy_has_the_pages_of_the_log() {
    let homes = Homes::new();
    let logs = homes.at("a");
    let log = logs.get(homes.attempt).await.unwrap();
    for (number, count) in [(1, 700), (2, 3), (3, 2000)] {
        turn(&log, &homes.dir("a"), number, sentences(count));
        homes.ship(&logs).await;
    }
    let rows = homes.rows("reader");
    for channel in [Channel::Normalized, Channel::Raw] {
        let copy = homes.copy(channel).unwrap();
        assert_eq!(homes.read(channel, 1000, 1 << 20).await, json(&log, channel));
        let latest = copy.next_entry;
        for limit in [1, 7, 1000] {
            for max_bytes in [1, 5000, 1 << 20] {
                for number in [0, 1, 699, 705, latest - 1, latest, latest + 5] {
                    let after = i64::try_from(number).unwrap() - 1;
                    let places = [PagePosition::Before(number), PagePosition::After(after)];
                    for place in places.into_iter().chain([PagePosition::Newest]) {
                        let query = Query { limit, max_bytes, place };
                        let there = shipped::page(&rows, &copy, &query).await.unwrap();
                        let here = log.page(channel, &query).unwrap();
                        assert_eq!(there.flags, here.flags, "{query:?}");
                        assert_eq!(there.entries, here.entries, "{query:?}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_flood_is_shipped_in_bounded_batches_and_a_lost_answer_doubles_nothing() {
    let homes = Homes::new();
    let logs = homes.at("a");
    let log = logs.get(homes.attempt).await.unwrap();
    let noise = (0..6000_u64).map(|number| {
        let mixed = |salt: u64| (number * 40 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..40).map(|salt| format!("{:016x}", mixed(salt))).collect::<Vec<_>>().concat() + "."
    });
    turn(&log, &homes.dir("a"), 1, noise);
    lock(&homes.table).fails = true;
    logs.ship_grown().await;
    lock(&homes.table).fails = false;
    homes.ship(&logs).await;
    let batches = lock(&homes.table).batches.clone();
    // A batch ends with the chunk that fills it.
    let most = 2 * (1024 * 1024 + shipped::CHUNK_BYTES);
    assert!(batches.len() > 1 && batches.iter().all(|bytes| *bytes <= most), "{batches:?}");
    for channel in [Channel::Normalized, Channel::Raw] {
        assert!(homes.read(channel, 1000, 1 << 20).await == json(&log, channel));
    }
}

#[tokio::test]
async fn a_log_goes_on_in_another_home_behind_one_gap_and_what_comes_late_is_not_shipped() {
    let homes = Homes::new();
    let first = homes.at("a");
    let log = first.get(homes.attempt).await.unwrap();
    turn(&log, &homes.dir("a"), 1, sentences(900));
    homes.ship(&first).await;
    let [known, known_raw] = [Channel::Normalized, Channel::Raw].map(|it| json(&log, it));
    // It is not shipped any more.
    turn(&log, &homes.dir("a"), 2, sentences(5));
    let second = homes.at("b");
    first.ship_grown().await;
    for _ in 0..2 {
        let log = second.get(homes.attempt).await.unwrap();
        let now = texts(&log, Channel::Normalized);
        assert_eq!(json(&log, Channel::Normalized)[..known.len()], known[..]);
        let gap = format!("host a was lost: its output after entry {} is not", known.len() - 1);
        assert!(now.len() == known.len() + 1 && now[known.len()].starts_with(&gap), "{now:?}");
        assert_eq!(log.tip().raw, Some(known_raw.len() as u64 - 1));
    }
    let log = second.get(homes.attempt).await.unwrap();
    turn(&log, &homes.dir("b"), 2, sentences(40));
    homes.ship(&second).await;
    let whole = json(&log, Channel::Normalized);
    assert_eq!(homes.read(Channel::Normalized, 100, 1 << 20).await, whole);
    let raw = homes.read(Channel::Raw, 100, 1 << 20).await;
    assert_eq!(raw[..known_raw.len()], known_raw[..]);
    assert_eq!(raw[known_raw.len()..], json(&log, Channel::Raw)[..]);
    let (rows, copy) = (homes.rows("b"), homes.copy(Channel::Raw).unwrap());
    let page = async |place| {
        let query = query(7, place);
        shipped::joined(&rows, &copy, log.page(Channel::Raw, &query).unwrap(), &query)
            .await
            .unwrap()
    };
    let (mut forward, mut after) = (Vec::new(), -1);
    loop {
        let page = page(PagePosition::After(after)).await;
        after = i64::try_from(page.entries.last().unwrap().index).unwrap();
        forward.extend(page.entries.iter().map(|entry| entry.json().to_owned()));
        assert_eq!(page.flags.latest, Some(raw.len() as u64 - 1));
        if !page.flags.has_more {
            break;
        }
    }
    assert!(forward == raw);
    let (mut backward, mut place) = (Vec::new(), PagePosition::Newest);
    loop {
        let page = page(place).await;
        backward.splice(0..0, page.entries.iter().map(|entry| entry.json().to_owned()));
        match page.flags.next_cursor {
            Some(cursor) => place = PagePosition::Before(cursor),
            None => break,
        }
    }
    assert!(backward == raw);
    // A daemon that is started again has the same.
    let again = homes.at("b");
    assert_eq!(json(&again.get(homes.attempt).await.unwrap(), Channel::Normalized), whole);
    // Back at the first home, its own log is put aside.
    let back = homes.at("a");
    let log = back.get(homes.attempt).await.unwrap();
    let now = json(&log, Channel::Normalized);
    assert_eq!((now.len(), &now[..whole.len()]), (whole.len() + 1, &whole[..]));
    turn(&log, &homes.dir("a"), 3, sentences(4));
    assert_eq!(log.tip().raw, Some(raw.len() as u64 + 3));
    let aside = fs::read_dir(homes.dir("a")).unwrap().map(|it| it.unwrap().file_name());
    let aside: Vec<_> =
        aside.filter(|it| it.to_string_lossy().starts_with("log-before-")).collect();
    assert_eq!(aside.len(), 1);
}

#[tokio::test]
async fn a_copy_that_was_cut_off_is_begun_again_and_one_that_is_whole_is_put_in_place() {
    let homes = Homes::new();
    let logs = homes.at("a");
    let log = logs.get(homes.attempt).await.unwrap();
    turn(&log, &homes.dir("a"), 1, sentences(900));
    homes.ship(&logs).await;
    let log = homes.at("b").get(homes.attempt).await.unwrap();
    let whole = json(&log, Channel::Normalized);
    drop(log);
    let dir = homes.dir("b");
    let files = ["normalized.idx", "checkpoint.json", "normalized-00000000000000000000.jsonl"];
    let dressed = |folder: &str, moved: &[&str]| {
        let folder = dir.join(folder);
        fs::create_dir_all(&folder).unwrap();
        for it in moved {
            fs::rename(dir.join(it), folder.join(it)).unwrap();
        }
    };
    for (folder, moved) in [
        (".log-copying", &files[..]),
        (".log-copied", &files[..]),
        (".log-ready", &files[..]),
        (".log-ready", &files[1..2]),
        (".log-ready", &[]),
    ] {
        dressed(folder, moved);
        let _ = fs::remove_file(dir.join("raw.idx"));
        let log = homes.at("b").get(homes.attempt).await.unwrap();
        assert!(json(&log, Channel::Normalized) == whole, "{folder} {moved:?}");
        assert!(!dir.join(folder).exists(), "{folder}");
    }
    // Of a log that has lost its end, as by a power cut, the copy has more.
    let segment = dir.join(files[2]);
    let length = fs::metadata(&segment).unwrap().len();
    File::options().write(true).open(&segment).unwrap().set_len(length / 2).unwrap();
    let log = homes.at("b").get(homes.attempt).await.unwrap();
    assert!(json(&log, Channel::Normalized) == whole);
}

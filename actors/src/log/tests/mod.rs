//! The log as a whole, on real files. The spool's side is played by
//! [`SpoolFiles`], which writes what the shim would.

mod crash;
mod damage;
mod follow;
mod replay;
mod retention;
mod sealed;
mod shipped;
mod whole;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::spool::format::{FixedRecord, INDEX, Record, segment_path, segments};
use super::{AttemptLog, Entry, LogError, LogLimits, PagePosition, Query};
use crate::event::{Channel, Event, NormalizedEntry, RawEntry, Stream, Timestamp};
use crate::executor::{InProgress, Normalizer, Observed};
use crate::ids::ProcessId;

const LIMITS: LogLimits =
    LogLimits { ring_entries: 100, ring_bytes: 10_000, spool_max_bytes: 1 << 30 };

/// Everything is read from files.
const NO_RING: LogLimits = LogLimits { ring_entries: 0, ring_bytes: 0, spool_max_bytes: 1 << 30 };

/// Writes a spool; goes on with what the folder holds.
struct SpoolFiles {
    dir: PathBuf,
    segment_bytes: u64,
    clock: i64,
}

impl SpoolFiles {
    fn new(attempt_dir: &Path, process: ProcessId) -> Self {
        let dir = attempt_dir.join(process.to_string());
        fs::create_dir_all(&dir).unwrap();
        Self { dir, segment_bytes: 64 * 1024, clock: 1_000_000 }
    }

    fn len(&self, stream: Stream) -> u64 {
        let start = segments(&self.dir, stream).unwrap().last().copied();
        start.map_or(0, |start| {
            start + segment_path(&self.dir, stream, start).metadata().unwrap().len()
        })
    }

    fn lengths(&self) -> (u64, u64) {
        (self.len(Stream::Stdout), self.len(Stream::Stderr))
    }

    /// One record, its bytes before it; across segments when it must be.
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let offset = self.len(stream);
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = offset + (bytes.len() - rest.len()) as u64;
            let newest = segments(&self.dir, stream).unwrap().last().copied().unwrap_or(0);
            let start = if at - newest >= self.segment_bytes { at } else { newest };
            let room = usize::try_from(start + self.segment_bytes - at).unwrap().min(rest.len());
            let path = segment_path(&self.dir, stream, start);
            append(&path, &rest[..room]);
            rest = &rest[room..];
        }
        self.clock += 1;
        let len = u32::try_from(bytes.len()).unwrap();
        let record = Record { at_ms: self.clock, stream, offset, len };
        append(&self.dir.join(INDEX), &record.encode());
    }

    /// Retention: all but the newest `keep` segments of a stream go.
    fn drop_oldest(&self, stream: Stream, keep: usize) {
        let starts = segments(&self.dir, stream).unwrap();
        for start in &starts[..starts.len() - keep] {
            fs::remove_file(segment_path(&self.dir, stream, *start)).unwrap();
        }
    }
}

fn append(path: &Path, bytes: &[u8]) {
    File::options().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// A normalizer with a memory: text is held until a line ends with a full stop;
/// `twice …` gives two entries, `session …` none; stderr is a message by itself.
#[derive(Default)]
struct Sentences {
    held: String,
}

impl Normalizer for Sentences {
    fn raw(&mut self, entry: RawEntry, out: &mut Vec<Observed>) {
        if entry.stream == Stream::Stderr {
            out.push(Observed::Entry(Event::SystemMessage { text: entry.text }));
        } else if let Some(id) = entry.text.strip_prefix("session ") {
            out.push(Observed::ExecutorSession(id.to_owned()));
        } else if let Some(text) = entry.text.strip_prefix("twice ") {
            out.extend([said(text), said(text)].map(Observed::Entry));
        } else {
            self.held.push_str(&entry.text);
            if self.held.ends_with('.') {
                self.end(out);
            } else {
                let text = self.held.clone();
                let kind = "assistant_message".to_owned();
                out.push(Observed::InProgress(Some(InProgress { kind, text })));
            }
        }
    }

    fn end(&mut self, out: &mut Vec<Observed>) {
        if !self.held.is_empty() {
            out.push(Observed::Entry(said(&std::mem::take(&mut self.held))));
            out.push(Observed::InProgress(None));
        }
    }

    fn checkpoint(&self) -> serde_json::Value {
        self.held.clone().into()
    }

    fn restore(&mut self, checkpoint: &serde_json::Value) {
        checkpoint.as_str().unwrap().clone_into(&mut self.held);
    }
}

fn said(text: &str) -> Event {
    Event::AssistantMessage { text: text.to_owned(), continued: false }
}

fn note(text: &str) -> Event {
    Event::SystemMessage { text: text.to_owned() }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Pumps until there is nothing more.
fn drain(log: &AttemptLog, process: ProcessId) {
    while log.pump(process).unwrap() {}
}

fn query(limit: usize, place: PagePosition) -> Query {
    Query { limit, max_bytes: 1 << 20, place }
}

/// All that a channel holds, walking forward in pages of 100.
fn all(log: &AttemptLog, channel: Channel) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map_or(-1, |entry| i64::try_from(entry.index).unwrap());
        let page = log.page(channel, &query(100, PagePosition::After(after))).unwrap();
        entries.extend(page.entries);
        if !page.flags.has_more {
            return entries;
        }
    }
}

fn texts(log: &AttemptLog, channel: Channel) -> Vec<String> {
    all(log, channel).iter().map(text).collect()
}

fn text(entry: &Entry) -> String {
    let value: serde_json::Value = entry.parse().unwrap();
    value["text"].as_str().unwrap().to_owned()
}

fn json(log: &AttemptLog, channel: Channel) -> Vec<String> {
    all(log, channel).iter().map(|entry| entry.json().to_owned()).collect()
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

//! Recorded streams of the real CLIs, for tests of what is made of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use provost_actors::event::{Event, RawEntry, Stream, Timestamp};
use provost_actors::executor::{Normalizer, Observed};
use provost_actors::ids::ProcessId;
use serde_json::{Value, json};

/// A part of a line has at most so many bytes.
const PART: usize = 64 * 1024;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// What a CLI wrote in a scenario: stdout, then stderr, as raw entries.
pub fn read(cli: &str, scenario: &str) -> Vec<RawEntry> {
    let dir = folder().join(cli).join(scenario);
    let bytes = |name: &str| fs::read(dir.join(name)).unwrap_or_default();
    let mut entries = raw(Stream::Stdout, &bytes("stdout"));
    assert!(!entries.is_empty(), "{} has no stdout", dir.display());
    entries.extend(raw(Stream::Stderr, &bytes("stderr")));
    entries
}

/// The scenarios of a CLI, by name.
pub fn scenarios(cli: &str) -> Vec<String> {
    let found = fs::read_dir(folder().join(cli)).expect("a folder of transcripts");
    let mut names: Vec<String> =
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A stream's bytes as the log would number them.
pub fn raw(stream: Stream, bytes: &[u8]) -> Vec<RawEntry> {
    let process = ProcessId::new();
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n');
    let parts = lines.filter(|_| !bytes.is_empty()).flat_map(|line| {
        let count = line.len().div_ceil(PART).max(1);
        let part = move |n: usize| (n + 1 < count, &line[n * PART..line.len().min((n + 1) * PART)]);
        (0..count).map(part)
    });
    parts
        .zip(0..)
        .map(|((continued, part), entry_index)| RawEntry {
            entry_index,
            at: Timestamp::from_millis(0),
            execution_process_id: process,
            stream,
            text: String::from_utf8_lossy(part).into_owned(),
            continued,
            lossy: false,
        })
        .collect()
}

/// All that a normalizer makes of these, from its beginning to its end.
pub fn observe(mut normalizer: Box<dyn Normalizer>, entries: &[RawEntry]) -> Vec<Observed> {
    let mut out = Vec::new();
    normalizer.begin(&mut out);
    for entry in entries {
        normalizer.raw(entry.clone(), &mut out);
    }
    normalizer.end(&mut out);
    out
}

/// In a form for snapshots, without what is only shown for a moment.
pub fn shown(observed: &[Observed]) -> Vec<Value> {
    let is_passing =
        |one: &Observed| matches!(one, Observed::InProgress(_) | Observed::Retrying(_));
    let lasting = observed.iter().filter(|one| !is_passing(one));
    lasting
        .map(|one| match one {
            Observed::Entry(event) => json!(event),
            Observed::Say(message) => {
                let line: Value = serde_json::from_str(&message.line).unwrap_or_default();
                json!({ "say": message.key, "line": line })
            }
            Observed::Ask(request) => json!({ "ask": request }),
            Observed::TurnEnded(ended) => json!({ "turn_ended": ended }),
            Observed::ExecutorSession(id) => json!({ "executor_session": id }),
            other => json!(format!("{other:?}")),
        })
        .collect()
}

/// Each result is that of one call, shown before it, and each call has one at most.
pub fn assert_paired(observed: &[Observed]) {
    let mut open = BTreeSet::new();
    for one in observed {
        match one {
            Observed::Entry(Event::ToolUse { tool_call_id, .. }) => {
                assert!(open.insert(tool_call_id), "{tool_call_id} is called twice");
            }
            Observed::Entry(Event::ToolResult { tool_call_id, .. }) => {
                assert!(open.remove(tool_call_id), "{tool_call_id} has no call for its result");
            }
            _ => {}
        }
    }
}

/// The laws of a normalizer, over the transcripts of a CLI: restored from a
/// checkpoint anywhere it makes the same of the rest, a stream that is cut off is
/// no completed turn for that, and no bytes at all, nor any transcript that is cut
/// off or damaged, make it panic.
pub fn hold_laws(cli: &str, normalizer: impl Fn() -> Box<dyn Normalizer>) {
    for scenario in scenarios(cli) {
        let entries = read(cli, &scenario);
        let whole = observe(normalizer(), &entries);
        let (mut reader, mut out) = (normalizer(), Vec::new());
        reader.begin(&mut out);
        for entry in &entries {
            reader.raw(entry.clone(), &mut out);
            let checkpoint = reader.checkpoint();
            let mut end = Vec::new();
            reader.end(&mut end);
            let completes =
                |one: &Observed| matches!(one, Observed::TurnEnded(ended) if !ended.failed);
            assert!(!end.iter().any(completes), "{cli}/{scenario} cut off after {}", entry.text);
            reader = normalizer();
            reader.restore(&checkpoint);
        }
        reader.end(&mut out);
        assert_eq!(shown(&out), shown(&whole), "{cli}/{scenario} over checkpoints");
    }
    let names = scenarios(cli);
    let cases =
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), ".{0,40}", any::<bool>());
    let mut runner =
        TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let result = runner.run(&cases, |(scenario, at, noise, cuts)| {
        let mut entries = read(cli, &names[scenario.index(names.len())]);
        let at = at.index(entries.len());
        if cuts {
            let text = &mut entries[at].text;
            let middle = (0..=text.len() / 2).rev().find(|n| text.is_char_boundary(*n));
            text.truncate(middle.unwrap_or(0));
        } else {
            entries[at].text = noise;
        }
        observe(normalizer(), &entries);
        Ok(())
    });
    result.unwrap();
}

//! The pure parts on the path of a log line and of a call: time, and allocations, which do not depend
//! on the machine. `cargo bench --bench pure` measures them; `cargo test --bench pure` runs each once.

#![expect(clippy::expect_used, reason = "what is measured is known to work")]

#[path = "../examples/bench/transcripts.rs"]
mod transcripts;

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};
use provost::normalizers::{acp, claude, codex};
use provost_actors::event::{Event, NormalizedEntry, RawEntry, Timestamp};
use provost_actors::executor::Normalizer;
use provost_actors::ids::ProcessId;
use provost_actors::log::LineCutter;
use provost_actors::nearest::nearest;
use provost_actors::secret::Needle;
use provost_actors::secret::redact::Redactor;
use serde_json::Value;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

/// Bytes of output that the parts below get at once, as a reader of the spool does.
const PIECE: usize = 64 * 1024;

fn main() {
    divan::main();
}

/// Normalizes the recorded streams of a program.
#[divan::bench(args = ["claude", "codex", "acp_claude"])]
fn normalize(bencher: Bencher<'_, '_>, program: &str) {
    let streams = transcripts::streams(program).expect("the recorded streams are there");
    let make = match program {
        "claude" => claude,
        "codex" => codex,
        _ => acp,
    };
    let bytes: usize = streams.iter().flatten().map(|entry| entry.text.len()).sum();
    let bencher = bencher.counter(BytesCount::new(bytes)).with_inputs(|| streams.clone());
    bencher.bench_values(|streams| {
        for stream in streams {
            black_box(normalized(make(&Value::Null), stream));
        }
    });
}

fn normalized(
    mut normalizer: Box<dyn Normalizer>,
    stream: Vec<RawEntry>,
) -> Vec<provost_actors::executor::Observed> {
    let mut out = Vec::new();
    for entry in stream {
        normalizer.raw(entry, &mut out);
    }
    normalizer.end(&mut out);
    out
}

/// Cuts output into lines.
#[divan::bench(args = [10, 100, 1000])]
fn cut_lines(bencher: Bencher<'_, '_>, length: usize) {
    let bytes = output(length);
    bencher.counter(BytesCount::new(bytes.len())).bench(|| {
        let mut cutter = LineCutter::default();
        cutter.push(&bytes);
        std::iter::from_fn(|| cutter.next_line()).count()
    });
}

/// Looks for ten secrets in output that has none.
#[divan::bench]
fn redact(bencher: Bencher<'_, '_>) {
    let needle = |number: u8| Needle {
        name: format!("TOKEN_{number}"),
        text: format!("sk-{number}-0123456789abcdef"),
    };
    let redactor = Redactor::new((0..10).map(needle).collect()).expect("the needles are few");
    let bytes = output(100);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| redactor.redact(black_box(&bytes), true));
}

/// Writes an entry of the normalized channel as JSON.
#[divan::bench]
fn entry_to_json(bencher: Bencher<'_, '_>) {
    let entry = NormalizedEntry {
        entry_index: 123_456,
        at: Timestamp::from_millis(1_700_000_000_000),
        execution_process_id: ProcessId::new(),
        turn: 3,
        event: Event::AssistantMessage { text: "x".repeat(100), continued: false },
    };
    bencher.bench(|| serde_json::to_vec(black_box(&entry)));
}

/// Looks for the name that a caller may have meant.
#[divan::bench]
fn nearest_name() -> Option<&'static str> {
    let names =
        ["attempt_id", "attempt_ids", "task_id", "project_id", "executor", "prompt", "until"];
    nearest(black_box("atempt_id"), names)
}

fn output(line: usize) -> Vec<u8> {
    let mut line = "x".repeat(line - 1).into_bytes();
    line.push(b'\n');
    line.repeat(PIECE / line.len())
}

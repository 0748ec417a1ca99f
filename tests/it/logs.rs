//! `tail_attempt_logs`: all that was written, once and in order, in whatever
//! pages it is asked for.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost, texts};
use crate::lines::contiguous;

#[test]
fn fifty_thousand_lines_followed_live_come_once_and_in_order() {
    const LINES: usize = 50_000;
    let script = format!("seq -f 'line %.0f' {LINES} & seq -f 'line %.0f' {LINES} >&2; wait");
    let provost = Provost::new().executor("flood", PLAIN, &script).started();
    let board = provost.board();
    let (fake, plain) = (board.start("fake", &format!("lines {LINES}")), board.start("flood", "x"));
    assert_eq!(contiguous(&stdout_lines(&follow(&fake)), "line"), LINES);

    let both = follow(&plain);
    for stream in ["stdout", "stderr"] {
        let of_stream = both.iter().filter(|entry| entry["stream"] == stream);
        assert_eq!(contiguous(&texts(of_stream), "line"), LINES, "{stream}");
    }
    let last = both.last().unwrap()["entry_index"].as_u64();
    assert_eq!(last, Some(2 * LINES as u64 - 1));
    // The message that each line of a plain executor is.
    assert_eq!(contiguous(&plain.said("assistant_message"), "line"), LINES);
}

/// Polls for news until the attempt has settled.
fn follow(attempt: &Attempt) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    loop {
        let is_settled = attempt.status()["phase"] == "settled";
        attempt.catch_up(&mut seen);
        if is_settled {
            return seen;
        }
    }
}

/// What the fake says beside its protocol.
fn stdout_lines(entries: &[Value]) -> Vec<String> {
    texts(entries).into_iter().filter(|text| text.starts_with("line ")).collect()
}

/// An attempt with 300 lines of its own.
fn three_hundred(provost: &Provost) -> Attempt<'_> {
    let attempt = provost.board().start("count", "x");
    attempt.settled();
    attempt
}

fn counting() -> Provost {
    Provost::new().executor("count", PLAIN, "seq -f 'line %.0f' 300").started()
}

#[test]
fn walking_back_by_cursor_comes_to_the_beginning() {
    let provost = counting();
    let attempt = three_hundred(&provost);
    for (limit, max_bytes) in [(7, 16384), (1000, 2000), (1, 1), (1000, 1_048_576)] {
        let (mut walked, mut place) = (Vec::new(), json!({"limit": limit, "max_bytes": max_bytes}));
        loop {
            let mut page = attempt.page("raw", &place);
            let Value::Array(entries) = page["entries"].take() else { panic!() };
            assert!((1..=limit).contains(&entries.len()));
            walked.splice(0..0, entries);
            assert_eq!(page["has_more"], !page["next_cursor"].is_null());
            match page["next_cursor"].take() {
                Value::Null => break,
                cursor => place["cursor"] = cursor,
            }
        }
        assert_eq!(contiguous(&texts(&walked), "line"), 300);
    }
}

#[test]
fn pages_have_their_documented_sizes() {
    let provost = counting();
    let attempt = three_hundred(&provost);
    let length = |channel: &str, more: Value| {
        let page = attempt.page(channel, &more);
        let entries = page["entries"].as_array().unwrap().clone();
        (entries.len(), Value::Array(entries).to_string().len())
    };
    // 200 raw entries or 16 KiB, whichever is less.
    let (count, bytes) = length("raw", json!({}));
    assert!(count < 200 && (15_000..=16_384).contains(&bytes), "{count}, {bytes}");
    assert_eq!(length("raw", json!({"max_bytes": 1_000_000})).0, 200);
    assert_eq!(length("normalized", json!({})).0, 50);
    assert_eq!(length("raw", json!({"limit": 100_000, "max_bytes": 100_000_000})).0, 300);
    let (_, bytes) = length("normalized", json!({"max_bytes": 3000}));
    assert!((2000..=3000).contains(&bytes), "{bytes}");
    assert_eq!(length("raw", json!({"max_bytes": 1})).0, 1);
}

#[test]
fn places_out_of_range_are_empty_pages() {
    let provost = counting();
    let attempt = three_hundred(&provost);
    for place in [
        json!({"after_entry_index": 299}),
        json!({"after_entry_index": 1_000_000}),
        json!({"after_entry_index": 9_223_372_036_854_775_807_i64}),
        json!({"cursor": 0}),
        json!({"cursor": 1_000_000}),
    ] {
        let page = attempt.page("raw", &place);
        assert_eq!((&page["entries"], &page["has_more"]), (&json!([]), &json!(false)), "{place}");
        assert_eq!(
            (&page["next_cursor"], &page["latest_entry_index"]),
            (&Value::Null, &json!(299))
        );
    }
    let page = attempt.page("raw", &json!({"after_entry_index": -1, "limit": 2}));
    assert_eq!(texts(page["entries"].as_array().unwrap()), ["line 1", "line 2"]);
    assert_eq!((&page["has_more"], &page["next_cursor"]), (&json!(true), &Value::Null));
}

#[test]
fn an_entry_never_changes_and_both_channels_number_from_zero() {
    let provost = counting();
    let attempt = three_hundred(&provost);
    for channel in ["raw", "normalized"] {
        let all = attempt.after(channel, -1);
        let indexes = all.iter().map(|entry| entry["entry_index"].as_u64());
        assert!(indexes.eq((0..all.len() as u64).map(Some)));
        provost.kill_and_start();
        assert_eq!(attempt.after(channel, -1), all);
    }
}

/// The raw lines that a shell script writes.
fn lines_of(script: &str) -> Vec<Value> {
    let provost = Provost::new().executor("script", PLAIN, script).started();
    let attempt = provost.board().start("script", "x");
    attempt.settled();
    attempt.raw()
}

#[test]
fn bytes_that_are_no_text_are_shown_as_far_as_they_can_be() {
    let lines = lines_of(
        r"printf 'bad \377\376 utf8\n'
        printf 'a\000b\n'
        printf 'windows\r\n'
        printf '10%%\r50%%\r100%%\n'
        printf '\n'
        printf 'gr\303'; sleep 0.2; printf '\274n\n'
        printf 'no newline'",
    );
    let found: Vec<(&str, bool)> =
        lines.iter().map(|line| (line["text"].as_str().unwrap(), line["lossy"] == true)).collect();
    assert_eq!(
        found,
        [
            ("bad \u{fffd}\u{fffd} utf8", true),
            ("a\0b", false),
            ("windows", false),
            ("10%\r50%\r100%", false),
            ("", false),
            ("gr\u{fc}n", false),
            ("no newline", false),
        ]
    );
}

#[test]
fn a_line_of_ten_megabytes_comes_in_parts_of_sixty_four_kibibytes() {
    const LENGTH: usize = 10 << 20;
    let lines = lines_of(&format!(
        "head -c {LENGTH} /dev/zero | tr '\\0' x; echo; echo after; head -c 65536 /dev/zero | tr '\\0' y; echo"
    ));
    let (giant, rest) = lines.split_at(lines.len() - 2);
    let length: usize = giant.iter().map(|part| part["text"].as_str().unwrap().len()).sum();
    assert_eq!(length, LENGTH);
    assert!(giant.iter().all(|part| part["text"].as_str().unwrap().len() <= 65536));
    let (last, parts) = giant.split_last().unwrap();
    assert!(parts.iter().all(|part| part["continued"] == true));
    assert!(last["continued"] != true);
    assert_eq!(rest[0]["text"], "after");
    assert_eq!(
        (rest[1]["text"].as_str().unwrap().len(), &rest[1]["continued"]),
        (65536, &Value::Null)
    );
}

#[test]
fn beyond_its_share_of_the_disk_the_oldest_goes_and_the_log_says_so() {
    const LINES: u64 = 40_000;
    let script =
        format!("read gate; seq -f 'line %.0f' {LINES}; until [ -e $gate ]; do sleep 0.05; done");
    let provost = Provost::new()
        .config("[logs]\nspool_max_bytes = 65536\nring_entries = 100")
        .executor("flood", PLAIN, &script)
        .started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("flood", &gate.to_string_lossy());
    attempt.has_said(&format!("line {LINES}"));
    fs::write(gate, "").unwrap();
    attempt.settled();
    let page = attempt.page("raw", &json!({"after_entry_index": -1, "limit": 1}));
    assert_eq!(page["history_truncated"], true);
    let oldest = page["oldest_entry_index"].as_u64().unwrap();
    assert!(oldest > 0);
    assert_eq!(page["entries"][0]["entry_index"], oldest);
    // The first may be the rest of a line whose beginning has gone.
    let held = texts(&attempt.raw()[1..]);
    let numbers: Vec<u64> =
        held.iter().map(|text| text.strip_prefix("line ").unwrap().parse().unwrap()).collect();
    assert_eq!(numbers.last(), Some(&LINES));
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "no hole in what is held");
    assert!(numbers.len() < 20_000, "{} lines are held", numbers.len());
}

#[test]
fn what_a_leftover_writes_after_the_end_is_in_the_raw_log() {
    let script = "read gate\n\
        ( setsid sh -c 'until [ -e \"$1\" ]; do sleep 0.05; done; echo late' sh \"$gate\" & )\n\
        echo early";
    let provost = Provost::new().executor("leaver", PLAIN, script).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("leaver", &gate.to_string_lossy());
    assert_eq!(attempt.settled()["state"], "completed");
    fs::write(gate, "").unwrap();
    attempt.has_said("late");
    assert_eq!(attempt.lines("stdout"), ["early", "late"]);
}

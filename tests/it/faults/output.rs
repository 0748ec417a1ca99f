//! Whatever executors write, and whatever becomes of where it lies.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost, processes, texts, wait_until};
use crate::lines::contiguous;

/// What taking in a log of any length may add to the daemon's memory, in KiB: the
/// rings, which have a size, a few batches, and what the allocator keeps.
const MEMORY_MAX: u64 = 96 * 1024;

fn entries(page: &Value) -> &Vec<Value> {
    page["entries"].as_array().unwrap()
}

/// Runs a script to its end, and checks that the daemon's memory kept its bounds.
fn settled_in_bounds<'p>(provost: &'p Provost, executor: &str) -> Attempt<'p> {
    let board = provost.board();
    board.start("fake", "say warm").settled();
    let before = processes::peak_memory(provost.pid());
    let attempt = board.start(executor, "x");
    let status = as_it_goes_on(&attempt, |status| status["phase"] == "settled");
    assert_eq!(status["state"], "completed", "{status}");
    let grown = processes::peak_memory(provost.pid()) - before;
    assert!(grown < MEMORY_MAX, "the daemon's memory grew by {grown} KiB");
    attempt
}

/// Waits for something; as long as the log grows it may take as long as it likes.
fn as_it_goes_on(attempt: &Attempt<'_>, holds: impl Fn(&Value) -> bool) -> Value {
    let mut status = attempt.status();
    while !holds(&status) {
        let seen = status["latest_entry_index"].clone();
        status = attempt
            .until("it goes on", |status| holds(status) || status["latest_entry_index"] != seen);
    }
    status
}

#[test]
fn a_line_of_sixty_four_megabytes_without_an_end_costs_no_memory() {
    const BYTES: u64 = 64 << 20;
    const PARTS: u64 = BYTES >> 16;
    let script = format!("head -c {BYTES} /dev/zero | tr '\\0' x");
    let provost = Provost::new().executor("giant", PLAIN, &script).started();
    let attempt = settled_in_bounds(&provost, "giant");
    assert_eq!(attempt.status()["latest_entry_index"]["raw"], PARTS - 1);
    for after in [-1_i64, (PARTS / 2).cast_signed(), (PARTS - 3).cast_signed()] {
        let page = attempt.page("raw", &json!({"after_entry_index": after, "limit": 2}));
        for part in entries(&page) {
            assert_eq!(part["text"].as_str().unwrap().len(), 1 << 16);
            assert_eq!(part["continued"] == true, part["entry_index"] != PARTS - 1);
        }
    }
}

#[test]
fn a_progress_bar_of_a_million_steps_is_one_line() {
    const STEPS: usize = 1_000_000;
    // Each step returns the carriage and overwrites the one before.
    let script = format!("seq -f '%.0f%%' {STEPS} | tr '\\n' '\\r'; echo; echo done");
    let provost = Provost::new().executor("bar", PLAIN, &script).started();
    let attempt = settled_in_bounds(&provost, "bar");
    let raw = attempt.raw();
    let (done, bar) = raw.split_last().unwrap();
    assert_eq!(done["text"], "done");
    assert!(bar.iter().rev().skip(1).all(|part| part["continued"] == true));
    let steps = texts(bar).concat();
    let numbers =
        steps.split('\r').filter(|step| !step.is_empty()).map(|step| step.trim_end_matches('%'));
    assert!(numbers.eq((1..=STEPS).map(|number| number.to_string())));
}

#[test]
fn a_character_cut_by_every_read_and_every_part_stays_whole() {
    // Each byte is a write of its own; then a line of which each part ends within
    // a character.
    let script = r"for i in 1 2 3 4 5 6 7 8 9 10; do
            for byte in 342 202 254 360 237 230 200 303 274; do printf '\'$byte; sleep 0.005; done
        done; echo
        printf x; seq 70000 | sed 's/.*/€/' | tr -d '\n'; echo";
    let provost = Provost::new().executor("pieces", PLAIN, script).started();
    let attempt = provost.board().start("pieces", "x");
    attempt.settled();
    let raw = attempt.raw();
    assert!(raw.iter().all(|entry| entry["lossy"] != true));
    assert_eq!(raw[0]["text"], "€😀ü".repeat(10));
    assert!(raw.len() > 3);
    assert_eq!(texts(&raw[1..]).concat(), format!("x{}", "€".repeat(70_000)));
}

/// So many bytes lie below a folder, in files whose names contain this.
fn bytes_below(dir: &Path, name: &str) -> u64 {
    let count = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path(), name),
        Ok(meta) if entry.file_name().to_string_lossy().contains(name) => meta.len(),
        _ => 0,
    };
    fs::read_dir(dir).unwrap().flatten().map(count).sum()
}

#[test]
fn five_hundred_megabytes_are_paged_by_index_in_both_channels_and_memory_is_bounded() {
    const LINES: u64 = 16_000;
    const BYTES: u64 = 500 << 20;
    // Lines of 32 KiB, each with its number at both ends.
    let script = format!(
        "pad=$(head -c {} /dev/zero | tr '\\0' x)\n\
         seq {LINES} | awk -v pad=\"$pad\" '{{ printf \"%08d%s%08d\\n\", $1, pad, $1 }}'",
        BYTES / LINES - 17
    );
    let provost = Provost::new()
        .config("[logs]\nspool_max_bytes = 2147483648")
        .executor("flood", PLAIN, &script)
        .started();
    let attempt = settled_in_bounds(&provost, "flood");
    for channel in ["raw", "normalized"] {
        let newest = attempt.page(channel, &json!({"limit": 1}));
        let last = newest["latest_entry_index"].as_i64().unwrap();
        assert!(last + 1 >= LINES.cast_signed(), "{last}");
        for after in [-1, last / 4, last / 2, last - 4] {
            let place = json!({"after_entry_index": after, "limit": 2, "max_bytes": 100_000});
            let page = attempt.page(channel, &place);
            assert!(!entries(&page).is_empty());
            for (index, entry) in (after + 1..).zip(entries(&page)) {
                assert_eq!(entry["entry_index"], index);
                let text = entry["text"].as_str().unwrap();
                if channel == "raw" {
                    assert!(text.starts_with(&format!("{:08}x", index + 1)));
                    assert!(text.ends_with(&format!("x{:08}", index + 1)));
                }
            }
        }
    }
    let database = bytes_below(provost.home(), "provost.db");
    assert!(database < 8 << 20, "the database has {database} bytes");
}

#[test]
fn a_writer_as_fast_as_can_be_is_stopped_and_what_it_wrote_is_whole() {
    let script = "trap '' INT TERM; exec seq -f 'line %.0f' 100000000";
    let provost = Provost::new()
        .config("[daemon]\nstop_grace_ms = 300")
        .executor("flood", PLAIN, script)
        .started();
    let attempt = provost.board().start("flood", "x");
    attempt.until("it floods", |status| status["latest_entry_index"]["raw"].as_u64() > Some(1000));
    let stopped = attempt.stop();
    assert_eq!((&stopped["exit_signal"], &stopped["survivors"]), (&json!(9), &json!(0)));
    attempt.leaves_no_process();
    // The log is taken in up to the last byte, be it after the stop.
    let record = attempt.dir().join("exit.json");
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    let written = record["stdout_bytes"].as_u64().unwrap();
    let full = |number: u64| format!("line {number}\n").len() as u64;
    let (mut lines, mut bytes) = (0, 0);
    while bytes < written {
        lines += 1;
        bytes += full(lines);
    }
    as_it_goes_on(&attempt, |status| {
        status["latest_entry_index"]["raw"].as_u64() == Some(lines - 1)
    });
    let tail = attempt.page("raw", &json!({"after_entry_index": lines - 101, "limit": 100}));
    let (last, before) = entries(&tail).split_last().unwrap();
    let whole = (lines - 99..lines).map(|number| format!("line {number}"));
    assert!(texts(before).into_iter().eq(whole));
    // Cut off by the kill, at the very byte.
    let last = last["text"].as_str().unwrap();
    assert!(format!("line {lines}").starts_with(last), "{last}");
}

#[test]
fn a_spool_deleted_under_a_running_executor_harms_neither_it_nor_the_daemon() {
    let script = "read gate; echo up; n=0; ( env -i setsid /bin/sleep 1000 & )\n\
        until [ -e $gate ]; do n=$((n+1)); echo \"tick $n\"; sleep 0.02; done\n\
        echo \"the first of this stream\" >&2; exit 5";
    let provost = Provost::new()
        .config("[daemon]\nstop_grace_ms = 300")
        .executor("ticker", PLAIN, script)
        .started();
    let board = provost.board();
    let (gate, never) = (provost.path("gate"), provost.path("never"));
    let [ending, stopped, found] =
        [&gate, &never, &never].map(|gate| board.start("ticker", &gate.to_string_lossy()));
    let [_, _, ticker] = [&ending, &stopped, &found].map(|attempt| {
        attempt.has_said("tick 3");
        let (leader, dir) = (attempt.leader(), attempt.dir());
        fs::remove_dir_all(dir).unwrap();
        assert!(processes::is_alive(leader));
        leader
    });
    let answer = stopped.stop();
    assert_eq!((&answer["stopped"], &answer["survivors"]), (&json!(true), &json!(0)));
    stopped.leaves_no_process();
    fs::write(&gate, "").unwrap();
    assert_eq!(ending.settled()["exit_code"], 5);
    ending.leaves_no_process();
    // Nothing tells the next daemon how that one is: it is ended, and said to have failed.
    let worktree = fs::read_link(format!("/proc/{ticker}/cwd")).unwrap();
    assert!(processes::working_in(&worktree).len() > 1);
    provost.kill_and_start();
    let status = found.settled();
    assert_eq!(status["state"], "failed");
    assert!(status["failure_summary"].as_str().unwrap().contains("deleted"), "{status}");
    found.leaves_no_process();
    // The daemon's own git works there for a moment: the snapshot after the turn.
    wait_until("nor one without an environment", || processes::working_in(&worktree).is_empty());
    // What was shown before is shown still, and the daemon serves.
    assert_eq!(ending.normalized()[0]["kind"], "user_message");
    assert_eq!(board.start("fake", "say next").settled()["state"], "completed");
}

#[test]
fn damaged_files_of_a_log_are_reported_and_the_daemon_serves_all_the_same() {
    let provost = Provost::new().executor("count", PLAIN, "seq -f 'line %.0f' 2000").started();
    let board = provost.board();
    let attempt = board.start("count", "x");
    attempt.settled();
    let (raw, normalized) = (attempt.raw(), attempt.normalized());
    let (dir, spool) = (attempt.dir().parent().unwrap().to_owned(), attempt.dir());
    let damage = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(path, bytes).unwrap();
    };
    // Each of these is made again from the rest.
    for name in ["raw.idx", "normalized.idx", "checkpoint.json"] {
        provost.kill();
        fs::write(dir.join(name), "").unwrap();
        provost.start();
        assert_eq!(attempt.raw(), raw, "{name}");
        assert_eq!(attempt.normalized(), normalized, "{name}");
        assert!(provost.said().contains(name), "{}", provost.said());
    }
    provost.kill();
    damage(&spool.join("spool.idx"));
    damage(&dir.join("raw.idx"));
    provost.start();
    for after in [-1, 1000, 1900] {
        let place = json!({"attempt_id": attempt.id, "channel": "raw", "after_entry_index": after});
        let answer = provost.answer("tail_attempt_logs", &place);
        let Some(entries) = answer.value["entries"].as_array() else {
            assert_eq!(answer.value["code"], "internal");
            continue;
        };
        assert!(entries.iter().all(|entry| raw.contains(entry)));
    }
    let next = board.start("count", "x");
    next.settled();
    assert_eq!(contiguous(&next.lines("stdout"), "line"), 2000);
}

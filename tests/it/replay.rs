//! `provost replay`: entries are a function of what was written.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Attempt, Done, EVENTS, PLAIN, Provost};

fn replay(provost: &Provost, attempt: &Attempt) -> Done {
    provost.verb(["replay", &attempt.id, "--json"])
}

fn verdict(done: &Done) -> Value {
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    last["replay"].clone()
}

fn comes_out_the_same(provost: &Provost, attempt: &Attempt) {
    let done = replay(provost, attempt);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(verdict(&done)["same"], true);
    let shown: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shown[..shown.len() - 1], attempt.normalized());
}

#[test]
fn the_log_of_every_kind_of_executor_comes_out_the_same() {
    let transcripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let cat = |transcript: &str| format!("cat {}/{transcript}/stdout", transcripts.display());
    let event = r#"{"kind":"assistant_message","text":"hello"}"#;
    let mut provost = Provost::new()
        .executor("plain-one", PLAIN, "echo one; echo two >&2; printf three")
        .executor("events-one", EVENTS, &format!("echo '{event}'; echo no event"));
    let real = [
        ("claude-one", "claude", "claude/tools"),
        ("codex-server", "codex", "codex/live-perm"),
        ("codex-cut", "codex", "codex/live-interrupt"),
    ];
    for (name, protocol, transcript) in real {
        provost = provost.executor(name, protocol, &cat(transcript)).config("supports_mcp = false");
    }
    let provost = provost.started();
    let board = provost.board();
    let names = ["plain-one", "events-one"].into_iter().chain(real.map(|(name, ..)| name));
    let attempts: Vec<Attempt> = names.map(|name| board.start(name, "x")).collect();
    let fake = board.start("fake", "say a\nthink b\nwrite f g\nstderr e\nlines 300");
    for attempt in attempts.iter().chain([&fake]) {
        attempt.settled();
        comes_out_the_same(&provost, attempt);
    }
    // A second turn goes on under the same numbers, and a restart changes nothing.
    provost.verb(["send", &fake.id, "say again"]);
    fake.has_said("again");
    fake.settled();
    provost.kill_and_start();
    comes_out_the_same(&provost, &fake);
}

/// The log itself is on file, so nothing but the replay needs the old reader.
#[test]
fn a_log_of_a_protocol_that_the_executor_speaks_no_more_can_still_be_read() {
    let hello = r#"{"kind":"assistant_message","text":"hello"}"#;
    let provost = Provost::new().executor("changing", EVENTS, &format!("echo '{hello}'")).started();
    let attempt = provost.board().start("changing", "x");
    attempt.settled();
    let entries = attempt.normalized();
    let file = provost.home().join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    for (config, why) in [
        (config.replace("'events'", "'acp'"), "executor changing did not speak acp"),
        (String::new(), "executor changing is not configured any more"),
    ] {
        fs::write(&file, config).unwrap();
        provost.kill_and_start();
        assert_eq!(attempt.normalized(), entries);
        assert_eq!(provost.verb(["logs", &attempt.id]).code, 0);
        let done = replay(&provost, &attempt);
        assert_eq!(done.code, 1, "{done:?}");
        let message = verdict(&done)["message"].as_str().unwrap().to_owned();
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_log_that_was_tampered_with_is_reported_from_the_first_change_on() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say before\nsay during\nsay after");
    attempt.settled();
    let path = attempt.dir().parent().unwrap().join("normalized-00000000000000000000.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(r#""text":"during""#, r#""text":"DURING""#)).unwrap();
    let done = replay(&provost, &attempt);
    assert_eq!(done.code, 1);
    let verdict = verdict(&done);
    assert_eq!(verdict["same"], false);
    assert_eq!(verdict["difference"]["on_file"]["text"], "DURING");
    assert_eq!(verdict["difference"]["derived"]["text"], "during");

    let person = provost.verb(["replay", &attempt.id]);
    assert_eq!(person.code, 1);
    assert!(
        person.stdout.contains("agent    before") && !person.stdout.contains("agent    after"),
        "{person:?}"
    );
    assert!(person.stderr.contains("differs"), "{person:?}");
}

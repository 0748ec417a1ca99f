//! The examples run as their comments say, and do what they are there to show.
#![expect(clippy::disallowed_methods, reason = "the tests start the examples")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");

/// Cargo builds examples together with the tests, unless one test is asked for.
fn example(name: &str) -> PathBuf {
    let path = Path::new(PROVOST).with_file_name("examples").join(name);
    assert!(path.exists(), "run `cargo build --examples` first");
    path
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn an_orchestrator_starts_reads_and_stops_attempts() {
    let temporary = tempfile::tempdir().unwrap();
    let mut orchestrate = Command::new(example("orchestrate"));
    let output = orchestrate.arg(PROVOST).env("TMPDIR", temporary.path()).output().unwrap();
    let printed = stdout(&output);
    assert!(printed.contains("completed: I wrote NOTES.md: and the bread"), "{printed}");
    assert!(printed.contains(r#"changed: [{"path":"repo/NOTES.md","status":"added""#), "{printed}");
    assert!(printed.contains(r#"stopped with ["SIGINT"], 0 survivors"#), "{printed}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn the_scripted_executor_needs_no_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let mut executor = Command::new(example("fake_executor"))
        .current_dir(folder.path())
        .env("PROVOST_EXECUTOR_SESSION_ID", "earlier")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    executor.stdin.take().unwrap().write_all(b"remember the milk\n").unwrap();
    let printed = stdout(&executor.wait_with_output().unwrap());
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({"kind": "session", "id": "earlier"}));
    let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds[1..],
        ["thinking", "tool_use", "tool_result", "assistant_message", "token_usage"]
    );
    let notes = std::fs::read_to_string(folder.path().join("NOTES.md")).unwrap();
    assert_eq!(notes, "remember the milk\n");
}

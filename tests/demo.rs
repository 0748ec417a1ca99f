//! `provost demo` as a person runs it: it works, and leaves nothing behind.
#![expect(clippy::disallowed_methods, reason = "the tests start the program")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A demo whose temporary files are under `dir`.
fn demo(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provost"));
    command.arg("demo").env("TMPDIR", dir).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// No file is left under `dir`, and no process that was told of a home there.
fn assert_nothing_is_left(dir: &Path) {
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
    let home = format!("PROVOST_HOME={}", dir.display());
    for process in std::fs::read_dir("/proc").unwrap() {
        let environ = std::fs::read(process.unwrap().path().join("environ")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&environ).contains(&home));
    }
}

#[test]
fn the_demo_works_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let output = demo(dir.path()).arg("--json").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["ok"], true);
    assert_eq!(summary["went_on"]["turns"], 3);
    assert_eq!(summary["stopped"]["processes"], 2);
    assert_nothing_is_left(dir.path());
}

#[test]
fn the_teams_demo_works_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut team = demo(dir.path());
    let output = team.args(["--team", "--json"]).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["ok"], &summary["tasks"]), (&Value::from(true), &Value::from(8)));
    assert_eq!(summary["asked_of_a_person"], 1);
    assert!(summary["lie"].as_str().unwrap().contains("exited with 1"), "{summary}");
    assert_nothing_is_left(dir.path());
}

#[test]
fn an_interrupted_demo_fails_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = demo(dir.path()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap).inspect(|line| println!("{line}"));
    assert!(lines.any(|line| line.starts_with("agent    I ignore")));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_nothing_is_left(dir.path());
}

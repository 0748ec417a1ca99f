//! Faults of the disk and of the home's files.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::disk::{SmallDisk, mount, own_mounts, unmount};
use crate::harness::{Attempt, PLAIN, Provost, processes};

/// A home on a disk of its own, with an executor `agent`. It waits for `gate`
/// before it goes on with the rest of its script.
pub fn on_a_small_disk(options: &str, script: &str, config: &str) -> Option<(Provost, SmallDisk)> {
    let provost = Provost::new();
    let disk = SmallDisk::at(provost.home(), options)?;
    let gate = provost.path("gate");
    let script = format!("until [ -e {} ]; do sleep 0.02; done\n{script}", gate.display());
    let provost = provost.config(config).executor("agent", PLAIN, &script);
    Some((provost.started(), disk))
}

pub fn open_gate(provost: &Provost) {
    fs::write(provost.path("gate"), "").unwrap();
}

pub fn waits_for_the_disk(attempt: &Attempt) -> Value {
    attempt.until("it waits for the disk", |status| status["waiting_on"] == "disk")
}

/// Its own log may lie on the disk that is full.
#[test]
fn a_daemon_that_can_not_log_serves_all_the_same() {
    let provost = Provost::new().variable("PROVOST_LOG", "trace");
    provost.start_by(&["/bin/sh", "-c", "exec \"$@\" 2>/dev/full", "sh"]);
    let attempt = provost.board().start("fake", "lines 100\nsay done");
    assert_eq!(attempt.settled()["state"], "completed");
}

#[test]
fn on_a_full_disk_the_executor_waits_and_goes_on_with_nothing_lost() {
    let script =
        "seq 1 40000 | sed 's/$/ and some more text to fill the disk with, line by line/'\nexit 7";
    let Some((provost, disk)) = on_a_small_disk("size=32m", script, "") else { return };
    let board = provost.board();
    let attempt = board.start("agent", "write a lot");
    attempt.in_phase("running");
    let wait = json!({"attempt_ids": [attempt.id], "until": "any_change", "timeout_ms": 50000});
    let seen = provost.call("wait_for_attempts", &merged(&wait, &json!({"timeout_ms": 1})));

    disk.fill();
    open_gate(&provost);
    let after = json!({"after": seen["after"]});
    let woken = provost.call("wait_for_attempts", &merged(&wait, &after));
    let changed = &woken["attempts"][0];
    assert_eq!(
        (&changed["waiting_on"], &changed["changed"]),
        (&json!("disk"), &json!(true)),
        "{woken}"
    );
    let status = waits_for_the_disk(&attempt);
    assert_eq!(status["phase"], "running");
    let next = status["next_action"].as_str().unwrap();
    assert!(next.contains("No space left on device"), "{next}");
    let listed = provost.verb(["ps"]);
    assert!(listed.stdout.contains("waits for disk"), "{listed:?}");
    // A token that has seen it is not woken by it again.
    let after = json!({"after": woken["after"], "timeout_ms": 1});
    let again = provost.call("wait_for_attempts", &merged(&wait, &after));
    assert_eq!(again["timed_out"], true, "{again}");
    let leader = attempt.leader();
    assert!(processes::parent(leader).is_some(), "the executor is alive");

    disk.free();
    let status = attempt.settled();
    assert_eq!((&status["exit_code"], &status["waiting_on"]), (&json!(7), &Value::Null));
    let expected: Vec<String> = (1..=40_000)
        .map(|n| format!("{n} and some more text to fill the disk with, line by line"))
        .collect();
    assert!(attempt.lines("stdout") == expected, "each line once and in order");
    assert_eq!(attempt.said("assistant_message").len(), expected.len());
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    merged.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    merged
}

#[test]
fn an_exit_on_a_full_disk_is_known_once_there_is_room_also_after_a_restart() {
    let script = "echo bye\nexit 5";
    let Some((provost, disk)) = on_a_small_disk("size=32m", script, "") else { return };
    let board = provost.board();
    let attempt = board.start("agent", "leave");
    attempt.in_phase("running");
    disk.fill();
    open_gate(&provost);
    let status = waits_for_the_disk(&attempt);
    assert_eq!((&status["state"], &status["exit_code"]), (&json!("running"), &Value::Null));
    provost.kill_and_start();
    waits_for_the_disk(&attempt);
    disk.free();
    let status = attempt.settled();
    assert_eq!((&status["exit_code"], &status["waiting_on"]), (&json!(5), &Value::Null));
    assert_eq!(attempt.lines("stdout"), ["bye"]);
    assert_eq!(attempt.said("assistant_message"), ["bye"]);
}

#[test]
fn on_a_full_disk_changes_are_refused_reads_work_and_a_retry_goes_through_once() {
    let Some((provost, disk)) = on_a_small_disk("size=24m", "", "") else { return };
    let board = provost.board();
    let title = board.task("before");
    disk.fill();
    let task = json!({
        "project_id": board.project_id, "title": "after", "request_id": "one",
        "description": "x".repeat(30_000),
    });
    for _ in 0..3 {
        let refusal = provost.refusal("create_task", &task);
        assert_eq!(refusal["code"], "storage_full", "{refusal}");
        assert_eq!(refusal["retryable"], true);
    }
    let titles = || -> Vec<String> {
        let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
        let tasks = listed["tasks"].as_array().unwrap().iter();
        tasks.map(|task| task["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(titles(), ["before"]);
    disk.free();
    provost.call("create_task", &task);
    provost.call("create_task", &task);
    let mut all = titles();
    all.sort();
    assert_eq!(all, ["after", "before"]);
    // What is opened is checked first.
    provost.kill_and_start();
    assert_eq!(provost.call("get_task", &json!({"task_id": title}))["task"]["title"], "before");
}

#[test]
fn a_worktree_that_does_not_fit_fails_the_attempt_and_stands_in_nobodys_way() {
    let Some((provost, disk)) = on_a_small_disk("size=32m", "ls", "") else { return };
    let board = provost.board();
    board.repo().commit("large.bin", &"0123456789abcdef".repeat(1 << 18));
    open_gate(&provost);
    disk.fill_but(3 << 20);
    let attempt = board.start("agent", "look");
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    let why = status["failure_summary"].as_str().unwrap();
    assert!(why.contains("no worktree of"), "{why}");
    // git's own words; it does not tell which error it was.
    assert!(why.contains("unable to write file large.bin"), "{why}");
    disk.free();
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "look again"});
    provost.call("follow_up", &send);
    attempt.until("it has completed", |status| status["state"] == "completed");
    assert_eq!(attempt.lines("stdout"), ["README.md", "large.bin"]);
    assert_eq!(board.start("agent", "look").settled()["state"], "completed");
}

#[test]
fn without_inodes_a_start_fails_with_the_reason_and_works_again_later() {
    let options = "size=32m,nr_inodes=300";
    let Some((provost, _disk)) = on_a_small_disk(options, "echo here", "") else { return };
    let board = provost.board();
    open_gate(&provost);
    let first = board.start("agent", "first");
    assert_eq!(first.settled()["state"], "completed");
    let many = provost.home().join("many");
    fs::create_dir(&many).unwrap();
    let full = (0..400).any(|n| fs::write(many.join(n.to_string()), "").is_err());
    assert!(full, "no inode is left");
    let second = board.start("agent", "second");
    let status = second.settled();
    assert_eq!(status["state"], "failed");
    let why = status["failure_summary"].as_str().unwrap();
    assert!(why.contains("No space left on device"), "{why}");
    fs::remove_dir_all(many).unwrap();
    assert_eq!(board.start("agent", "third").settled()["state"], "completed");
    assert_eq!(first.lines("stdout"), ["here"]);
}

/// Lays the home over itself, so that what is opened from here on can't be written.
fn make_read_only(home: &Path) {
    let at = home.to_str().unwrap();
    mount(&["--bind", at, at]);
    mount(&["-o", "remount,bind,ro", at]);
}

#[test]
fn a_daemon_on_a_read_only_home_says_so_at_once_and_harms_no_executor() {
    let provost = Provost::new();
    if own_mounts().is_none() {
        return;
    }
    let gate = provost.path("gate");
    let script = format!("until [ -e {} ]; do sleep 0.02; done; exit 3", gate.display());
    let provost = provost.executor("agent", PLAIN, &script).started();
    let board = provost.board();
    let attempt = board.start("agent", "wait");
    attempt.in_phase("running");
    let leader = attempt.leader();
    provost.kill();
    make_read_only(provost.home());
    let done = provost.fails_to_start();
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.stderr.contains("Read-only file system"), "{done:?}");
    assert!(done.stderr.contains(provost.home().to_str().unwrap()), "{done:?}");
    let listed = provost.verb(["ps"]);
    assert_eq!(listed.code, 3, "{listed:?}");
    assert!(listed.stderr.contains("Read-only file system"), "{listed:?}");
    assert!(processes::parent(leader).is_some(), "the executor is alive");
    unmount(provost.home());
    provost.start();
    open_gate(&provost);
    assert_eq!(attempt.settled()["exit_code"], 3);
}

#[test]
fn a_home_that_becomes_read_only_fails_new_starts_and_no_old_ones() {
    let provost = Provost::new();
    if own_mounts().is_none() {
        return;
    }
    let gate = provost.path("gate");
    let script =
        format!("until [ -e {} ]; do sleep 0.02; done; seq 1 1000; exit 3", gate.display());
    let provost = provost.executor("agent", PLAIN, &script).started();
    let board = provost.board();
    let attempt = board.start("agent", "wait");
    attempt.in_phase("running");
    make_read_only(provost.home());
    let second = board.start("agent", "never");
    let status = second.settled();
    assert_eq!(status["state"], "failed");
    let why = status["failure_summary"].as_str().unwrap();
    assert!(why.contains("Read-only file system"), "{why}");
    unmount(provost.home());
    open_gate(&provost);
    assert_eq!(attempt.settled()["exit_code"], 3);
    assert_eq!(attempt.lines("stdout").len(), 1000);
}

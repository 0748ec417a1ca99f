//! The conflict radar: attempts in each other's way are told so, each pair is merged once, and what
//! is resolved, finished or collected is told no more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Attempt, Board, Provost};

fn send(provost: &Provost, attempt: &Attempt, prompt: &str) {
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": prompt});
    provost.call("follow_up", &send);
}

/// An attempt that did what its prompt says, and whose last turn has a snapshot.
fn attempt<'p>(board: &Board<'p>, prompt: &str) -> Attempt<'p> {
    let attempt = board.start("fake", prompt);
    attempt.saved(1);
    attempt
}

/// Whom an attempt is in conflict with, and over which paths.
fn conflicts_of(status: &Value) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let conflicts = status["conflicts_with"].as_array().unwrap().iter();
    let found = conflicts.map(|conflict| {
        let whom = [&conflict["attempt_id"], &conflict["target_branch"]];
        assert_eq!(whom.iter().filter(|it| it.is_null()).count(), 1, "{conflict}");
        let whom = whom.into_iter().find(|it| !it.is_null()).unwrap();
        (text(whom), conflict["paths"].as_array().unwrap().iter().map(text).collect())
    });
    found.collect()
}

fn readme(whom: &str) -> Vec<(String, Vec<String>)> {
    vec![(whom.to_owned(), vec!["README.md".to_owned()])]
}

/// What `provost conflicts` says once it has looked: each attempt, and whether it is clean.
fn order(provost: &Provost) -> Vec<(String, bool)> {
    let said = provost.verb(["conflicts", "--json"]).json();
    let attempts = said["attempts"].as_array().unwrap().iter();
    let line = |it: &Value| {
        (it["attempt_id"].as_str().unwrap().to_owned(), it["is_clean"].as_bool().unwrap())
    };
    attempts.map(line).collect()
}

/// A token of now, for a wait.
fn now(provost: &Provost, attempt: &Attempt) -> Value {
    let look = json!({"attempt_ids": [attempt.id], "until": "any_change", "timeout_ms": 1});
    provost.call("wait_for_attempts", &look)["after"].clone()
}

#[track_caller]
fn is_woken(provost: &Provost, attempt: &Attempt, after: &Value) {
    let wait = json!({"attempt_ids": [attempt.id], "until": "any_change", "after": after,
        "timeout_ms": 50_000});
    assert_eq!(provost.call("wait_for_attempts", &wait)["timed_out"], false);
}

#[test]
fn two_attempts_at_the_same_lines_are_in_conflict_until_one_gives_way() {
    let provost = Provost::running();
    let board = provost.board();
    let one = attempt(&board, "write README.md one\nwrite own.txt x");
    assert_eq!(conflicts_of(&one.status()), []);
    let before = now(&provost, &one);
    let other = attempt(&board, "write README.md other\nwrite another.txt x");
    is_woken(&provost, &one, &before);
    // Both know.
    let status = one.status();
    assert_eq!(conflicts_of(&status), readme(&other.id));
    assert_eq!(conflicts_of(&other.status()), readme(&one.id));
    let conflict = &status["conflicts_with"][0];
    assert_eq!((&conflict["repo_name"], &conflict["path_count"]), (&json!("app"), &json!(1)));
    let marked = format!("{}:README.md", conflict["tree_id"].as_str().unwrap());
    let marked = board.repo().git(&["show", &marked]);
    assert!(marked.starts_with("<<<<<<<") && marked.contains("other"), "{marked}");
    assert_eq!(order(&provost), [(one.id.clone(), true), (other.id.clone(), false)]);
    let shown = provost.verb(["conflicts"]).stdout;
    assert!(shown.contains("once resolved") && shown.contains("README.md"), "{shown}");
    let many = json!({"attempt_ids": [one.id, other.id]});
    let many = provost.call("get_attempt_status", &many);
    assert_eq!(conflicts_of(&many["attempts"][1]), readme(&one.id));

    let before = now(&provost, &one);
    send(&provost, &other, "run git checkout --quiet README.md");
    is_woken(&provost, &one, &before);
    assert_eq!((conflicts_of(&one.status()), conflicts_of(&other.status())), (vec![], vec![]));
    assert_eq!(order(&provost), [(one.id.clone(), true), (other.id.clone(), true)]);
}

#[test]
fn a_target_that_moved_is_noticed_at_the_next_status_and_at_the_next_snapshot() {
    let provost = Provost::running();
    let board = provost.board();
    let one = attempt(&board, "write README.md one");
    let before = now(&provost, &one);
    board.repo().commit("README.md", "moved on\n");
    one.status();
    is_woken(&provost, &one, &before);
    assert_eq!(conflicts_of(&one.status()), readme("main"));
    assert_eq!(order(&provost), [(one.id.clone(), false)]);
    send(&provost, &one, "run git checkout --quiet README.md");
    one.saved(2);
    one.until("nothing is in its way", |it| conflicts_of(it).is_empty());
    board.repo().commit("README.md", "and on\n");
    send(&provost, &one, "write README.md again");
    one.until("the target is in its way", |it| conflicts_of(it) == readme("main"));
}

#[test]
fn an_attempt_that_is_over_is_in_the_way_of_none() {
    let provost = Provost::running();
    let board = provost.board();
    let one = attempt(&board, "write README.md one");
    let task = json!(one.started["task_id"]);
    let are_in_conflict = |other: &Attempt| {
        one.until("they are in conflict", |it| conflicts_of(it) == readme(&other.id));
        now(&provost, &one)
    };
    let is_over = |before: &Value| {
        is_woken(&provost, &one, before);
        assert_eq!(conflicts_of(&one.status()), []);
    };
    // Its task is closed, deleted, or its worktree collected.
    let other = attempt(&board, "write README.md other");
    let before = are_in_conflict(&other);
    let closed = json!({"task_id": other.started["task_id"], "status": "cancelled"});
    provost.call("update_task", &closed);
    is_over(&before);
    let reopened = json!({"task_id": other.started["task_id"], "status": "todo"});
    provost.call("update_task", &reopened);
    other.until("they are in conflict again", |it| conflicts_of(it) == readme(&one.id));
    let before = are_in_conflict(&other);
    provost.call("delete_task", &json!({"task_id": other.started["task_id"]}));
    is_over(&before);
    let other = attempt(&board, "write README.md other");
    let before = are_in_conflict(&other);
    let discard = json!({"attempt_id": other.id, "action": "discard"});
    assert_eq!(provost.call("finish_attempt", &discard)["state"], "done");
    is_over(&before);
    assert_eq!(order(&provost), [(one.id.clone(), true)]);
    assert_eq!(provost.call("get_task", &json!({"task_id": task}))["task"]["status"], "inreview");
}

#[test]
fn work_that_was_merged_is_in_the_way_as_part_of_the_target_alone() {
    let provost = Provost::running();
    let board = provost.board();
    let one = attempt(&board, "write README.md one");
    let other = attempt(&board, "write README.md other");
    one.until("they are in conflict", |it| conflicts_of(it) == readme(&other.id));
    let merge = json!({"attempt_id": other.id, "action": "merge", "strategy": "squash"});
    assert_eq!(provost.call("finish_attempt", &merge)["state"], "done");
    one.until("the target is in its way", |it| conflicts_of(it) == readme("main"));
    assert_eq!(conflicts_of(&other.status()), []);
    assert_eq!(order(&provost), [(one.id.clone(), false)]);
    // It goes on.
    send(&provost, &other, "write README.md more");
    other.saved(2);
    one.until("both are", |it| conflicts_of(it).len() == 2);
    assert_eq!(conflicts_of(&one.status()), [readme("main"), readme(&other.id)].concat());
}

/// A daemon whose git processes leave a line each in a file.
fn counting() -> (Provost, PathBuf) {
    let provost = Provost::new();
    let (bin, calls) = (provost.path("bin"), provost.path("calls"));
    fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let real = path.split(':').map(|dir| Path::new(dir).join("git")).find(|it| it.exists());
    let real = real.unwrap();
    let (calls_file, real) = (calls.display(), real.display());
    let script = format!("#!/bin/sh\necho \"$*\" >> {calls_file}\nexec {real} \"$@\"\n");
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", bin.display());
    (provost.variable("PATH", &path).started(), calls)
}

#[test]
fn each_pair_of_snapshots_is_merged_once() {
    let (provost, calls) = counting();
    let board = provost.board();
    let merges = || {
        order(&provost);
        let calls = fs::read_to_string(&calls).unwrap();
        calls.lines().filter(|line| line.contains("merge-tree")).count()
    };
    let one = attempt(&board, "write a.txt x");
    let two = attempt(&board, "write b.txt x");
    assert_eq!(merges(), 0, "they have no file in common");
    let three = attempt(&board, "write a.txt y\nwrite b.txt x");
    assert_eq!(merges(), 2, "with each of the others");
    for attempt in [&one, &two, &three, &one] {
        attempt.status();
        assert_eq!(merges(), 2, "all are known");
    }
    provost.kill_and_start();
    one.status();
    assert_eq!(merges(), 2, "known after a restart too");
    board.repo().commit("b.txt", "x");
    assert_eq!(merges(), 4, "those that have it, with the new target");
}

#[test]
fn a_conflict_that_a_crash_kept_from_being_seen_is_reported_by_the_next_daemon() {
    let provost = Provost::running();
    let board = provost.board();
    let one = attempt(&board, "write README.md one");
    for failpoint in ["snapshot.committed", "probes.written", "probes.committed"] {
        provost.kill();
        provost.start_to_die_at(failpoint);
        let other = board.start("fake", "write README.md other");
        assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
        provost.start();
        other.until("it is told", |it| conflicts_of(it).iter().any(|(whom, _)| *whom == one.id));
        one.until("both are", |it| conflicts_of(it).iter().any(|(whom, _)| *whom == other.id));
        provost.call("delete_task", &json!({"task_id": other.started["task_id"]}));
        one.until("it is over", |it| conflicts_of(it).is_empty());
    }
}

#[test]
fn a_merge_driver_of_the_repository_does_not_run() {
    let provost = Provost::running();
    let board = provost.board();
    let (repo, ran) = (board.repo(), provost.path("ran"));
    repo.commit(".gitattributes", "* merge=evil\n");
    repo.git(&["config", "merge.evil.driver", &format!("touch {}", ran.display())]);
    let one = attempt(&board, "write README.md one");
    let other = attempt(&board, "write README.md other");
    one.until("they are in conflict", |it| conflicts_of(it) == readme(&other.id));
    assert!(!ran.exists());
}

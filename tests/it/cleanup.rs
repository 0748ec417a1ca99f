//! What runs when worktrees go, and the checks that repositories declare for themselves.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Attempt, Provost, wait_until};

fn gc(provost: &Provost, attempt: &Attempt) -> Value {
    let report = provost.verb(["--json", "gc", "--yes", "--snapshot"]).json();
    let attempts = report["attempts"].as_array().unwrap();
    attempts.iter().find(|it| it["attempt_id"] == attempt.id).cloned().unwrap_or(Value::Null)
}

/// Collects once nothing of the settled turn is alive any more.
pub fn collected(provost: &Provost, attempt: &Attempt) -> Value {
    let mut report = Value::Null;
    wait_until("the worktrees are collected", || {
        report = gc(provost, attempt);
        report["verdict"] == "collected"
    });
    report
}

#[test]
fn a_cleanup_runs_once_when_worktrees_go_and_again_after_they_were_used_again() {
    let provost = Provost::new();
    let (made, gone) = (provost.path("made"), provost.path("gone"));
    let keys = format!(
        "setup = {{ run = 'echo x >> {}' }}\ncleanup = {{ run = 'echo gone; pwd >> {}' }}",
        made.display(),
        gone.display()
    );
    let provost = provost.config(&format!("[projects.scratch.repos.app]\n{keys}")).started();
    let lines = |path| fs::read_to_string(path).unwrap_or_default().lines().count();
    let board = provost.board();
    let attempt = board.start("fake", "say done");
    attempt.settled();
    let dry = provost.verb(["gc"]);
    assert_eq!((dry.code, lines(&gone)), (0, 0), "a dry run runs nothing");
    let report = collected(&provost, &attempt);
    assert_eq!(report["cleanup_failures"], Value::Null, "{report}");
    assert_eq!((lines(&made), lines(&gone)), (1, 1));
    let starts = attempt.normalized();
    let of_cleanup = starts.iter().filter(|entry| entry["run_reason"] == "cleanup_script");
    assert_eq!(of_cleanup.count(), 1);
    assert_eq!(attempt.status()["state"], "completed", "a cleanup is no turn");
    // Its worktrees come back with a setup, and go with another cleanup.
    let again = json!({"action": "send", "attempt_id": attempt.id, "prompt": "say again"});
    provost.call("follow_up", &again);
    attempt.has_said("again");
    attempt.settled();
    collected(&provost, &attempt);
    assert_eq!((lines(&made), lines(&gone)), (2, 2));
}

#[test]
fn a_cleanup_that_fails_or_hangs_is_reported_and_keeps_nothing() {
    for (run, why) in [
        ("echo no container; exit 3", "exit code 3; its last lines: no container"),
        ("setsid sleep 600 & sleep 600", "limit of 1 s (wall_secs)"),
    ] {
        let keys = format!("cleanup = {{ run = '{run}', timeout_secs = 1 }}");
        let provost =
            Provost::new().config(&format!("[projects.scratch.repos.app]\n{keys}")).started();
        let board = provost.board();
        let attempt = board.start("fake", "say done");
        attempt.settled();
        let report = collected(&provost, &attempt);
        let failures = report["cleanup_failures"][0].as_str().unwrap();
        assert!(failures.starts_with("cleanup of app (") && failures.ends_with(why), "{report}");
        attempt.leaves_no_process();
    }
}

#[test]
fn a_cleanup_of_the_repository_runs_only_if_a_person_trusts_it() {
    let provost = Provost::running();
    let canary = provost.path("canary");
    let board = provost.board();
    let text = format!("[cleanup]\nrun = 'touch {}'\n", canary.display());
    board.repo().commit("provost.toml", &text);
    let first = board.start("fake", "say done");
    first.settled();
    let report = collected(&provost, &first);
    assert!(report["cleanup_failures"][0].as_str().unwrap().contains("not trusted"), "{report}");
    assert!(!canary.exists());
    assert_eq!(provost.verb(["trust", "scratch", "--yes"]).code, 0);
    let second = board.start("fake", "say done");
    second.settled();
    collected(&provost, &second);
    assert!(canary.exists());
}

#[test]
fn a_daemon_killed_while_it_cleans_up_collects_with_one_cleanup() {
    for step in ["cleanup.next", "cleanup.ended", "collect.moved", "collect.forgotten"] {
        let provost = Provost::new();
        let gone = provost.path("gone");
        let keys = format!(
            "cleanup = {{ run = 'echo x >> {}' }}\nports = {{ names = ['PORT'] }}",
            gone.display()
        );
        // One block: the next attempt gets ports only if this one's are given back.
        let range = "[worktrees]\nports = '20310-20319'";
        let provost = provost.config(&format!("{range}\n[projects.scratch.repos.app]\n{keys}"));
        provost.start_to_die_at(step);
        let board = provost.board();
        let attempt = board.start("fake", "say done");
        attempt.settled();
        wait_until("the daemon dies", || {
            // It may die while it answers.
            let _ = provost.verb(["gc", "--yes", "--snapshot"]);
            fs::read_to_string(&gone).is_ok() || step == "cleanup.next"
        });
        provost.ended();
        provost.start();
        if !step.starts_with("collect.") {
            collected(&provost, &attempt);
        }
        assert_eq!(fs::read_to_string(&gone).unwrap(), "x\n", "{step}");
        // Its ports are free again: the next attempt gets them.
        let next = board.start("fake", "say next").settled();
        assert_eq!(next["provision"]["ports"]["PORT"], 20310, "{step}: {next}");
    }
}

#[test]
fn the_checks_of_a_repository_decide_a_merge_once_they_are_trusted() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().commit("provost.toml", "[checks]\nok = 'test -e ok.txt'\n");
    let bad = board.start("fake", "write other.txt x");
    bad.in_phase("waiting");
    let next = bad.status()["next_action"].as_str().unwrap().to_owned();
    assert!(next.contains("provost trust "), "{next}");
    assert_eq!(provost.verb(["trust", "scratch", "--yes"]).code, 0);
    bad.settled();
    let good = board.start("fake", "write ok.txt x");
    good.settled();
    let finish = |attempt: &Attempt| {
        let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 60_000});
        provost.call("finish_attempt", &merge)
    };
    let failed = finish(&bad);
    assert_eq!(failed["state"], "checks_failed", "{failed}");
    let done = finish(&good);
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(done["checks"][0]["name"], "ok", "{done}");
}

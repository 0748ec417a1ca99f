//! The dev server of an attempt: with the attempt's port, beside its turns, until it is stopped.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::finish::{cut_off, finish, refused, rests};
use crate::harness::{Attempt, Provost, get, has_python, wait_until};

/// `None` without python3, which serves the files of a folder over HTTP.
fn serving(more: &str) -> Option<Provost> {
    if !has_python() {
        return None;
    }
    let keys = format!(
        "ports = {{ names = ['WEB_PORT'] }}\n{more}\n[projects.scratch.repos.app.dev_server]\n\
         run = 'setsid sleep 600 & exec python3 -m http.server --bind 127.0.0.1 $WEB_PORT'\n\
         port = 'WEB_PORT'\nready = 'http://127.0.0.1:$WEB_PORT/README.md'"
    );
    Some(Provost::new().config(&format!("[projects.scratch.repos.app]\n{keys}")).started())
}

fn preview(provost: &Provost, attempt: &Attempt, more: &[&str]) -> Value {
    let mut command = provost.command(&["--json", "preview", &attempt.id]);
    command.args(more);
    Provost::done(command).json()
}

fn has_no_process(attempt: &Attempt) {
    wait_until("nothing of the dev server is alive", || attempt.processes().is_empty());
}

#[test]
fn a_dev_server_answers_lives_through_a_stop_and_a_daemon_and_ends_with_all_it_started() {
    let Some(provost) = serving("") else { return };
    let board = provost.board();
    let attempt = board.start("fake", "hang");
    attempt.in_phase("running");
    let answer = preview(&provost, &attempt, &[]);
    assert_eq!(answer["state"], "ready", "{answer}");
    let url = answer["url"].as_str().unwrap().to_owned();
    let port = attempt.status()["provision"]["ports"]["WEB_PORT"].clone();
    assert_eq!(url, format!("http://127.0.0.1:{port}/README.md"));
    assert!(get(&url).unwrap().contains("a scratch repository"));
    assert_eq!(preview(&provost, &attempt, &[])["process_id"], answer["process_id"], "one alone");
    // A stop of the turn leaves it alone, and so does a daemon's end.
    assert_eq!(attempt.stop()["stopped"], true);
    attempt.settled();
    assert!(get(&url).is_some());
    provost.kill_and_start();
    assert!(get(&url).is_some());
    let answer = &attempt.status()["provision"]["dev_server"];
    assert_eq!((&answer["state"], &answer["url"]), (&json!("ready"), &json!(url)), "{answer}");
    assert_eq!(attempt.status()["phase"], "settled");
    assert!(provost.verb(["status", &attempt.id]).stdout.contains(&url));
    let answer = preview(&provost, &attempt, &["--stop"]);
    assert_eq!(answer["state"], "stopped", "{answer}");
    assert_eq!(get(&url), None);
    has_no_process(&attempt);
    assert_eq!(preview(&provost, &attempt, &["--stop"])["state"], "stopped", "again");
    assert_eq!(preview(&provost, &attempt, &[])["state"], "ready", "and once more");
    assert_eq!(preview(&provost, &attempt, &["--stop"])["state"], "stopped");
}

#[test]
fn an_orchestrator_starts_and_ends_a_dev_server_by_a_tool() {
    let Some(provost) = serving("") else { return };
    let board = provost.board();
    let attempt = board.start("fake", "say done");
    attempt.settled();
    let call = |action: &str| {
        provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": action}))
    };
    assert_eq!(call("end_preview")["preview"], json!(null), "there never was one");
    let begun = call("preview");
    assert_eq!(
        (&begun["action"], &begun["preview"]["state"]),
        (&json!("preview"), &json!("ready")),
        "{begun}"
    );
    assert!(get(begun["preview"]["url"].as_str().unwrap()).is_some(), "{begun}");
    assert_eq!(begun["queue"]["status"], "empty");
    let ended = call("end_preview");
    assert_eq!(ended["preview"]["state"], "stopped", "{ended}");
    has_no_process(&attempt);
    let of = |repo: &str| json!({"attempt_id": attempt.id, "action": "preview", "repo": repo});
    assert_eq!(provost.refusal("follow_up", &of("other"))["code"], "invalid_argument");
    // While another program has the port it does not start, and that program does not count as it.
    let port = attempt.status()["provision"]["ports"]["WEB_PORT"].as_u64().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    let failed = provost.call("follow_up", &of("app"))["preview"].clone();
    assert_eq!(failed["state"], "failed", "{failed}");
    let who = format!("port {port} is in use by process {}", std::process::id());
    assert!(failed["reason"].as_str().unwrap().starts_with(&who), "{failed}");
    drop(taken);
    assert_eq!(provost.call("follow_up", &of("app"))["preview"]["state"], "ready");
    assert_eq!(call("end_preview")["preview"]["state"], "stopped");
}

#[test]
fn a_dev_server_whose_worktree_or_settings_are_gone_can_be_ended() {
    let Some(provost) = serving("") else { return };
    let board = provost.board();
    let attempt = board.start("fake", "say done");
    attempt.settled();
    assert_eq!(preview(&provost, &attempt, &[])["state"], "ready");
    let there = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    provost.kill();
    let aside = provost.path("aside");
    fs::rename(&there, &aside).unwrap();
    symlink(&aside, &there).unwrap();
    provost.start();
    assert_eq!(attempt_state(&attempt), "ready", "it is the same process");
    assert_eq!(preview(&provost, &attempt, &["--stop"])["state"], "stopped");
    has_no_process(&attempt);
    fs::remove_file(&there).unwrap();
    fs::rename(&aside, &there).unwrap();
    assert_eq!(preview(&provost, &attempt, &[])["state"], "ready");
    provost.kill();
    let folder = provost.home().join("attempts").join(&attempt.id);
    fs::write(folder.join("provision.json"), "{").unwrap();
    provost.start();
    has_no_process(&attempt);
    let on_file = || fs::read_to_string(folder.join("preview.json")).unwrap();
    wait_until("its end is on file", || on_file().contains("\"failed\""));
    assert!(on_file().contains("provision.json"), "{}", on_file());
}

#[test]
fn a_shutdown_that_stops_all_ends_dev_servers_too() {
    let Some(provost) = serving("") else { return };
    let board = provost.board();
    let attempt = board.start("fake", "say done");
    attempt.settled();
    assert_eq!(preview(&provost, &attempt, &[])["state"], "ready");
    assert_eq!(provost.verb(["shutdown", "--stop-all"]).code, 0);
    provost.ended();
    has_no_process(&attempt);
}

#[test]
fn a_dev_server_ends_when_its_worktrees_go() {
    let Some(provost) = serving("") else { return };
    let board = provost.board();
    let (kept, collected, discarded) = (
        board.start("fake", "write new.txt work"),
        board.start("fake", "say done"),
        board.start("fake", "write new.txt work"),
    );
    for attempt in [&kept, &collected, &discarded] {
        attempt.settled();
        attempt.saved(1);
        assert_eq!(preview(&provost, attempt, &[])["state"], "ready");
    }
    let verdict = |report: &Value, attempt: &Attempt| {
        let attempts = report["attempts"].as_array().unwrap();
        let found = attempts.iter().find(|it| it["attempt_id"] == attempt.id);
        found.map_or(Value::Null, |it| it["verdict"].clone())
    };
    let dry = provost.verb(["--json", "gc"]).json();
    assert_eq!(verdict(&dry, &collected), "collectable", "{dry}");
    assert_eq!(attempt_state(&collected), "ready", "a dry run ends nothing");
    let report = provost.verb(["--json", "gc", "--yes"]).json();
    assert_eq!(verdict(&report, &collected), "collected", "{report}");
    assert_eq!((verdict(&report, &kept), attempt_state(&kept)), (json!("kept"), json!("ready")));
    has_no_process(&collected);
    // The next daemon takes up the discard and the dev server, and the one ends the other.
    let discard = json!({
        "attempt_id": discarded.id, "action": "discard", "timeout_ms": 60_000, "request_id": "d",
    });
    let done = cut_off(&provost, "finish.committed", &discard).output();
    assert_eq!(done["state"], "done", "{done}");
    has_no_process(&discarded);
    assert_eq!(preview(&provost, &kept, &["--stop"])["state"], "stopped");
    has_no_process(&kept);
}

fn attempt_state(attempt: &Attempt) -> Value {
    attempt.status()["provision"]["dev_server"]["state"].clone()
}

#[test]
fn a_dev_server_that_fails_says_why_and_one_that_is_not_trusted_never_runs() {
    let keys = "[projects.scratch.repos.app.dev_server]\nrun = 'echo no port; exit 4'";
    let provost = Provost::new().config(keys).started();
    let board = provost.board();
    let attempt = board.start("fake", "say done");
    attempt.settled();
    // Without a port or a URL it counts as ready once it runs, and has failed when it has ended.
    preview(&provost, &attempt, &[]);
    wait_until("it has failed", || attempt_state(&attempt) == "failed");
    let why = attempt.status()["provision"]["dev_server"]["reason"].clone();
    assert!(why.as_str().unwrap().contains("exit code 4; its last lines: no port"), "{why}");

    let provost = Provost::running();
    let board = provost.board();
    let canary = provost.path("canary");
    let text = format!("[dev_server]\nrun = 'touch {}'\n", canary.display());
    board.repo().commit("provost.toml", &text);
    let attempt = board.start("fake", "say done");
    attempt.settled();
    let refused = provost.verb(["preview", &attempt.id]);
    assert!(refused.code != 0 && refused.stderr.contains("provost trust"), "{refused:?}");
    assert!(!canary.exists());
    assert_eq!(provost.verb(["trust", "scratch", "--yes"]).code, 0);
    provost.verb(["preview", &attempt.id]);
    wait_until("it has run", || canary.exists());
}

#[test]
fn a_daemon_killed_while_it_starts_a_dev_server_leaves_one_or_none() {
    for step in ["preview.recorded", "preview.next", "shim.started"] {
        let Some(provost) = serving("") else { return };
        let board = provost.board();
        let attempt = board.start("fake", "say done");
        attempt.settled();
        provost.kill();
        provost.start_to_die_at(step);
        let _ = provost.verb(["preview", &attempt.id]);
        provost.ended();
        provost.start();
        let answer = preview(&provost, &attempt, &[]);
        assert_eq!(answer["state"], "ready", "{step}: {answer}");
        let url = answer["url"].as_str().unwrap().to_owned();
        assert!(get(&url).is_some(), "{step}");
        assert_eq!(preview(&provost, &attempt, &["--stop"])["state"], "stopped", "{step}");
        has_no_process(&attempt);
    }
}

#[test]
fn a_removal_that_is_refused_names_the_true_reason_and_leaves_the_dev_server_alone() {
    let Some(provost) = serving("") else { return };
    let board = provost.board();
    let attempt = board.start("fake", "say done");
    attempt.settled();
    rests(&provost, &attempt);
    let url = preview(&provost, &attempt, &[])["url"].as_str().unwrap().to_owned();
    let worktree = PathBuf::from(attempt.status()["worktree"].as_str().unwrap());
    let stray = worktree.with_file_name("stray");
    fs::write(&stray, "").unwrap();
    let refusal = refused(&provost, &attempt, "discard", &json!({}));
    assert!(refusal["message"].as_str().unwrap().contains("stray lies beside"), "{refusal}");
    assert!(get(&url).is_some(), "nothing was removed");
    fs::remove_file(&stray).unwrap();
    assert_eq!(finish(&provost, &attempt, "discard", &json!({}))["state"], "done");
    assert_eq!(get(&url), None);
    has_no_process(&attempt);
}

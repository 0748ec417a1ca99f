//! Several daemons, each a host with a home of its own, on one board on PostgreSQL. They need a
//! server, which `.ci/postgres COMMAND` gives them.

use std::fs;

use serde_json::json;

use crate::conversations::{pending, with_agent};
use crate::harness::postgres::{database, rows, run};
use crate::harness::{Attempt, PLAIN, Provost, Web, eventually, run_until, wait_until};
use crate::worker::inbox::{UNKNOWN, agent};

/// The configuration of a host on a board.
fn of_host(url: &str, name: &str) -> String {
    format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{name}\"\n")
}

fn host(url: &str, name: &str) -> Provost {
    Provost::new().config(&of_host(url, name)).started()
}

#[test]
fn three_daemons_have_one_board_and_each_keeps_its_own_attempts() {
    let Some(url) = database("many_board") else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| host(&url, name));
    let board = a.board();
    let task = b.call(
        "create_task",
        &json!({"project_id": board.project_id, "title": "from b", "priority": "high"}),
    );
    let seen = c.call("get_task", &json!({"task_id": task["task_id"]}));
    assert!(seen.to_string().contains("from b"), "{seen}");
    let gate = a.path("gate");
    let attempt = board.start("fake", &format!("say up\n{}", run_until(&gate)));
    attempt.has_said("up");
    let seen = b.call("get_attempt_status", &json!({"attempt_id": attempt.id}));
    assert_eq!((&seen["host"], &seen["state"]), (&json!("a"), &json!("running")));
    // A daemon that comes and goes takes up nothing of another host.
    let leader = attempt.leader();
    b.kill_and_start();
    c.kill_and_start();
    let listed = b.verb(["hosts", "--json"]).json();
    let hosts: Vec<&str> =
        listed["hosts"].as_array().unwrap().iter().map(|it| it["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["a", "b", "c"]);
    assert_eq!((attempt.leader(), attempt.status()["state"].clone()), (leader, json!("running")));

    let mut client = b.connect();
    let waiting = json!({"attempt_ids": [attempt.id], "timeout_ms": 60_000});
    let waiting = client.begin("wait_for_attempts", &waiting);
    // The calls of a connection begin in their order: the wait has begun.
    client.call("get_attempt_status", &json!({"attempt_id": attempt.id}));
    fs::write(&gate, "").unwrap();
    let waited = client.outcome(waiting).unwrap().output();
    assert_eq!(waited["timed_out"], false, "{waited}");
    attempt.settled();
    let page = Web::of(&c).get(&format!("/attempts/{}", attempt.id));
    assert_eq!(page.status, 200, "{page:?}");
    let mine = rows(&url, "SELECT host FROM attempts");
    assert_eq!(mine, ["a"]);
}

#[test]
fn what_runs_on_one_host_is_steered_from_another() {
    let Some(url) = database("many_steered") else { return };
    let [a, b] = ["a", "b"].map(|name| host(&url, name));
    let board = a.board();
    let attempt = board.start("fake", "say one\nwrite made.txt text");
    attempt.settled();
    attempt.saved(1);
    let there = Attempt::new(&b, attempt.started.clone());
    assert_eq!(there.normalized(), attempt.normalized());
    assert_eq!(there.raw(), attempt.raw());
    let asked = json!({"attempt_id": attempt.id});
    let changes = b.call("get_attempt_changes", &asked);
    assert_eq!(changes, a.call("get_attempt_changes", &asked));
    let asked = json!({"attempt_id": attempt.id, "paths": [changes["files"][0]["path"]]});
    assert_eq!(b.call("get_attempt_patch", &asked), a.call("get_attempt_patch", &asked));
    assert!(b.verb(["diff", &attempt.id]).stdout.contains("made.txt"));
    assert!(b.verb(["logs", &attempt.id]).stdout.contains("one"));

    let gate = a.path("gate");
    let prompt = format!("say two\n{}", run_until(&gate));
    let more = json!({"attempt_id": attempt.id, "action": "send", "prompt": prompt});
    let first = b.call("follow_up", &more);
    assert_eq!(first["queue"]["status"], "started", "{first}");
    there.has_said("two");
    let stopped = b.verb(["stop", &attempt.id]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    there.settled();
    attempt.saved(2);
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "request_id": "m"});
    let done = b.call("finish_attempt", &merge);
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(board.repo().git(&["show", "main:made.txt"]).trim(), "text");
    let again = a.call("finish_attempt", &merge);
    assert_eq!(again["finish_id"], done["finish_id"], "a call is one on all hosts");
    let page = Web::of(&b).get(&format!("/attempts/{}/turns/1/entries", attempt.id));
    assert!(page.status == 200 && page.body.contains("one"), "{page:?}");
}

#[test]
fn a_permission_is_given_from_another_host() {
    let Some(url) = database("many_approval") else { return };
    let Some(a) = with_agent(&of_host(&url, "a")).map(Provost::started) else { return };
    let b = host(&url, "b");
    let attempt = a.board().start("agent", "ask make\nsay done");
    let asked = pending(&b, &attempt);
    let answer = json!({"approval_id": asked["approval_id"], "decision": "approve"});
    assert_eq!(b.call("answer", &answer)["status"], "approved");
    assert_eq!(attempt.settled()["state"], "completed");
}

#[test]
fn a_call_in_flight_outlives_the_host_that_carries_it_out_and_takes_effect_once() {
    let Some(url) = database("many_killed") else { return };
    let a = host(&url, "a");
    let b = host(&url, "b");
    let attempt = a.board().start("fake", "say one");
    attempt.settled();
    a.kill();
    // It dies once the follow-up is written down, and before its answer is.
    a.start_to_die_at("follow_up.answering");
    let more = json!({"attempt_id": attempt.id, "action": "queue", "prompt": "say two"});
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| b.call("follow_up", &more));
        a.ended();
        a.start();
        asking.join().unwrap()
    });
    assert_eq!(answer["attempt_id"], json!(attempt.id));
    wait_until("the second turn has ended", || {
        let turns =
            rows(&url, "SELECT CAST(turn AS text) FROM processes WHERE ended_at IS NOT NULL");
        turns.len() == 2
    });
    attempt.settled();
    assert_eq!(rows(&url, "SELECT CAST(turn AS text) FROM processes ORDER BY turn"), ["1", "2"]);
}

#[test]
fn a_host_whose_daemon_is_gone_is_named_and_its_attempts_wait_for_it() {
    let Some(url) = database("many_gone") else { return };
    let [a, b] = ["a", "b"].map(|name| host(&url, name));
    let gate = a.path("gate");
    let attempt = a.board().start("fake", &format!("say up\n{}", run_until(&gate)));
    attempt.has_said("up");
    let leader = attempt.leader();
    a.kill();
    // Its lease is over, and it does not count as lost yet.
    run(&url, "UPDATE cluster SET no_sweep_before = 9000000000000000");
    run(&url, "UPDATE hosts SET lease_until = 1 WHERE host_id = 'a'");
    let refusal = b.refusal("stop_attempt", &json!({"attempt_id": attempt.id}));
    assert_eq!(refusal["code"], "daemon_unavailable", "{refusal}");
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("ost a has") && message.contains("has not renewed its lease since"));
    let status = b.call("get_attempt_status", &json!({"attempt_id": attempt.id}));
    assert_eq!(status["state"], "running", "no other host takes it up before that");
    assert!(b.verb(["hosts"]).stdout.contains("lost"));
    a.start();
    assert_eq!(attempt.leader(), leader);
    fs::write(&gate, "").unwrap();
    assert_eq!(attempt.settled()["state"], "completed");
}

#[test]
fn a_host_has_one_daemon() {
    let Some(url) = database("many_one") else { return };
    let one = host(&url, "a");
    let other = Provost::new().config(&of_host(&url, "a"));
    let refused = other.fails_to_start();
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("in use by another daemon"), "{refused:?}");
    one.kill();
    // The lease of the first one lasts.
    let refused = other.fails_to_start();
    assert!(refused.stderr.contains("belongs to the daemon of another home"), "{refused:?}");
    one.start();
}

#[test]
fn an_attempt_starts_on_the_host_that_has_the_labels_of_its_executor() {
    let Some(url) = database("many_labels") else { return };
    let with = |name: &str, more: &str| {
        let provost = Provost::new().executor("big", PLAIN, "echo computed");
        let provost = provost.config("labels = ['gpu']").executor("none", PLAIN, "echo computed");
        provost.config("labels = ['tpu']").config(&(of_host(&url, name) + more)).started()
    };
    let (a, b) = (with("a", "labels = ['gpu']"), with("b", ""));
    let board = b.board();
    let attempt = board.start("big", "compute");
    assert_eq!(attempt.settled()["host"], "a");
    let task = board.task("other");
    let refusal = b.refusal("start_task_attempt", &json!({"task_id": task, "executor": "none"}));
    assert_eq!(refusal["code"], "executor_unavailable", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("a has gpu"), "{refusal}");
    assert_eq!(a.call("list_task_attempts", &json!({"task_id": task}))["attempts"], json!([]));
}

#[test]
fn an_answer_reaches_an_asker_on_another_host() {
    let Some(url) = database("many_answers") else { return };
    let asks =
        agent(env!("CARGO_BIN_EXE_provost"), &[("askQuestion", json!({"question": UNKNOWN}))]);
    let a = Provost::new().executor("asker", "plain", &asks).config(&of_host(&url, "a")).started();
    let b = host(&url, "b");
    let attempt = a.board().start("asker", "x");
    attempt.settled();
    b.call("answer", &json!({"question_id": "Q-001", "answer": "GSAP"}));
    eventually("the asker has it as a follow-up", || {
        let prompts = rows(&url, "SELECT prompt FROM processes");
        prompts.iter().any(|prompt| prompt.contains("GSAP")).then_some(())
    });
    attempt.settled();
}

//! Waiting for attempts: woken by what happens, through the daemon's end.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Attempt, Provost, processes, wait_until};

/// Longer than any test; the tool takes no more.
const LONG: u32 = 50_000;

/// A prompt that ends once a file is there.
fn until(gate: &std::path::Path, then: &str) -> String {
    format!("say up\nrun while ! [ -e {} ]; do sleep 0.02; done\n{then}", gate.display())
}

fn open(gate: &std::path::Path) {
    std::fs::write(gate, "").unwrap();
}

fn ids(attempts: &[&Attempt]) -> Vec<String> {
    attempts.iter().map(|attempt| attempt.id.clone()).collect()
}

fn states(answer: &Value) -> Vec<&str> {
    let attempts = answer["attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["state"].as_str().unwrap()).collect()
}

fn changed(answer: &Value) -> Vec<bool> {
    let attempts = answer["attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["changed"].as_bool().unwrap()).collect()
}

#[test]
fn a_wait_ends_when_the_first_attempt_settles_and_the_next_one_goes_on_from_there() {
    let provost = Provost::running();
    let board = provost.board();
    let gates = [provost.path("one"), provost.path("two")];
    let one = board.start("fake", &until(&gates[0], "exit 3"));
    let two = board.start("fake", &until(&gates[1], "say done"));
    two.has_said("up");
    let attempts = ids(&[&two, &one, &two]);
    let mut client = provost.connect();
    let wait =
        client.begin("wait_for_attempts", &json!({"attempt_ids": attempts, "timeout_ms": LONG}));
    open(&gates[0]);
    let first = client.outcome(wait).unwrap().output();
    assert_eq!((states(&first), &first["timed_out"]), (vec!["running", "failed"], &json!(false)));
    let failed = &first["attempts"][1];
    assert_eq!((&failed["exit_code"], &failed["phase"]), (&json!(3), &json!("settled")));
    assert!(failed["failure_summary"].as_str().unwrap().contains("exit code 3"));
    assert_eq!(failed["latest_entry_index"], one.status()["latest_entry_index"]);

    let next = json!({"attempt_ids": attempts, "after": first["after"], "timeout_ms": LONG});
    let wait = client.begin("wait_for_attempts", &next);
    open(&gates[1]);
    let second = client.outcome(wait).unwrap().output();
    assert_eq!(states(&second), ["completed", "failed"]);
    assert_eq!(changed(&second), [true, false]);
    // Nothing is left to wait for.
    let last = json!({"attempt_ids": attempts, "after": second["after"], "timeout_ms": LONG});
    let last = provost.call("wait_for_attempts", &last);
    assert_eq!((changed(&last), &last["timed_out"]), (vec![false, false], &json!(false)));
}

#[test]
fn waiting_for_all_and_for_any_change_is_as_it_says() {
    let provost = Provost::running();
    let board = provost.board();
    let gate = provost.path("gate");
    let (one, two) = (board.start("fake", "say hi"), board.start("fake", &until(&gate, "")));
    one.settled();
    two.in_phase("running");
    let attempts = ids(&[&one, &two]);
    let ask = |until: &str, timeout: u32, after: &Value| json!({"attempt_ids": attempts, "until": until, "timeout_ms": timeout, "after": after});
    let now = provost.call("wait_for_attempts", &ask("all_settled", 1, &Value::Null));
    assert_eq!(now["timed_out"], true);
    let still = provost.call("wait_for_attempts", &ask("any_change", 1, &now["after"]));
    assert_eq!((&still["timed_out"], changed(&still)), (&json!(true), vec![false, false]));
    let mut client = provost.connect();
    let all = client.begin("wait_for_attempts", &ask("all_settled", LONG, &Value::Null));
    let change = client.begin("wait_for_attempts", &ask("any_change", LONG, &still["after"]));
    let stopping = client.begin("stop_attempt", &json!({"attempt_id": two.id}));
    let change = client.outcome(change).unwrap().output();
    assert_eq!((&change["timed_out"], changed(&change)), (&json!(false), vec![false, true]));
    assert_eq!(states(&client.outcome(all).unwrap().output()), ["completed", "failed"]);
    client.outcome(stopping).unwrap().output();
}

#[test]
fn an_unknown_attempt_and_a_strange_token_are_refused_at_once() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "hang");
    let unknown = "01900000-0000-7000-8000-000000000000";
    let refusal =
        provost.refusal("wait_for_attempts", &json!({"attempt_ids": [attempt.id, unknown]}));
    assert_eq!(refusal["code"], "attempt_not_found");
    assert_eq!(refusal["details"]["attempt_id"], unknown);
    for bad in ["yesterday", "r-1", "r999999999"] {
        let refusal = provost
            .refusal("wait_for_attempts", &json!({"attempt_ids": [attempt.id], "after": bad}));
        assert_eq!(refusal["code"], "invalid_argument", "{bad}");
        assert_eq!(refusal["details"]["path"], "after");
    }
}

#[test]
fn a_wait_outlives_the_daemon_and_learns_what_happened_while_none_ran() {
    let provost = Provost::running();
    let gate = provost.path("gate");
    let attempt = provost.board().start("fake", &until(&gate, "say done"));
    attempt.in_phase("running");
    let mut client = provost.bridge();
    client.initialize();
    let ask = |timeout: u32, after: &Value| json!({"attempt_ids": [attempt.id], "timeout_ms": timeout, "after": after});
    let first = client.call("wait_for_attempts", &ask(1, &Value::Null)).output();
    assert_eq!(first["timed_out"], true);
    let wait = client.begin("wait_for_attempts", &ask(LONG, &first["after"]));
    // A call behind it on the same connection: the wait has reached the daemon.
    client.call("list_projects", &json!({})).output();
    let leader = attempt.leader();
    provost.kill();
    open(&gate);
    wait_until("the executor has ended", || !processes::is_alive(leader));
    // The bridge, which has something to ask, starts the next one.
    provost.is_started();
    let answer = client.outcome(wait).unwrap().output();
    assert_eq!((states(&answer), changed(&answer)), (vec!["completed"], vec![true]));
    assert_eq!(answer["timed_out"], false);
}

#[test]
fn thousands_of_waits_stand_in_nobodys_way_and_all_are_woken() {
    const WAITS: usize = 2000;
    let provost = Provost::running();
    let gate = provost.path("gate");
    let attempt = provost.board().start("fake", &until(&gate, "say done"));
    attempt.in_phase("running");
    let mut client = provost.bridge();
    client.initialize();
    let ask = json!({"attempt_ids": [attempt.id], "timeout_ms": LONG});
    let waits: Vec<u64> = (0..WAITS).map(|_| client.begin("wait_for_attempts", &ask)).collect();
    let page = client.call("tail_attempt_logs", &json!({"attempt_id": attempt.id})).output();
    assert!(page["latest_entry_index"].is_u64());
    // Every second one is given up; the others are all answered.
    for id in waits.iter().step_by(2) {
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id}}));
    }
    client.call("list_projects", &json!({})).output();
    open(&gate);
    for id in waits.iter().skip(1).step_by(2) {
        let answer = client.outcome(*id).unwrap().output();
        assert_eq!(states(&answer), ["completed"]);
    }
}

#[test]
fn a_daemon_that_is_asked_to_end_answers_those_who_wait_and_is_not_started_again() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    let mut client = provost.bridge();
    client.initialize();
    let ask = json!({"attempt_ids": [attempt.id], "timeout_ms": LONG});
    let wait = client.begin("wait_for_attempts", &ask);
    client.call("list_projects", &json!({})).output();
    processes::signal(provost.pid(), Signal::SIGTERM);
    assert_eq!(provost.ended(), Some(0));
    let refusal = client.outcome(wait).unwrap().refusal();
    assert_eq!(
        (&refusal["code"], &refusal["retryable"]),
        (&json!("daemon_restarting"), &json!(true))
    );
    provost.start();
    let wait = client.begin("wait_for_attempts", &ask);
    attempt.stop();
    assert_eq!(states(&client.outcome(wait).unwrap().output()), ["failed"]);
}

#[test]
fn the_verb_tells_each_end_and_exits_by_how_they_ended() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 9").started();
    let board = provost.board();
    let (well, ill) = (board.start("fake", "say hi"), board.start("fake", "exit 3"));
    let hanging = board.start("fake", "say up\nhang");
    let done = provost.verb(["wait", &well.id]);
    assert_eq!((done.code, done.stdout.lines().count()), (0, 1), "{done:?}");
    assert!(done.stdout.contains("completed (exit 0)"), "{done:?}");
    let done = provost.verb(["wait", "--all", &well.id, &ill.id[24..]]);
    assert_eq!((done.code, done.stdout.lines().count()), (7, 2), "{done:?}");
    let done = provost.verb(["wait", "--any", &hanging.id, &well.id]);
    assert_eq!(done.code, 0, "{done:?}");
    let done = provost.verb(["wait", "--timeout", "1", "--json", &hanging.id, &well.id]);
    assert_eq!(done.code, 6, "{done:?}");
    let answer: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&answer["timed_out"], states(&answer)),
        (&json!(true), vec!["running", "completed"])
    );
    let done = provost.verb(["wait", "01900000-0000-7000-8000-000000000000"]);
    assert_eq!(done.code, 4, "{done:?}");
    attempt_settles_while_the_verb_waits_over_a_restart(&provost, &well, &hanging);
}

/// It waits for one that has settled, of which it tells, and one that has not.
fn attempt_settles_while_the_verb_waits_over_a_restart(
    provost: &Provost,
    settled: &Attempt,
    hanging: &Attempt,
) {
    let mut verb = provost.command(&["wait", &settled.id, &hanging.id]);
    let mut child = verb.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("completed"));
    provost.kill();
    provost.is_started();
    hanging.stop();
    assert!(lines.next().unwrap().unwrap().contains("stopped"));
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

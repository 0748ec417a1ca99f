//! The daemon is killed, with SIGKILL, and started again: executors run on, and
//! the new daemon knows all that the old one would have known.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost, processes, texts, wait_until};
use crate::lines::{NUMBERING, numbering, whole};

#[test]
fn ten_attempts_outlive_the_daemon_and_none_of_their_output_is_lost() {
    let provost = Provost::new()
        .config("[daemon]\nmax_running_attempts = 10")
        .executor("numbering", PLAIN, NUMBERING)
        .started();
    let board = provost.board();
    let (early, late) = (provost.path("early"), provost.path("late"));
    let start = |code: i32| {
        let gate = if code < 4 { &early } else { &late };
        board.start("numbering", &numbering(code, gate))
    };
    let attempts: Vec<Attempt> = (0..10).map(start).collect();
    for attempt in &attempts {
        attempt.has_said("out 5");
    }
    let leaders: Vec<i32> = attempts.iter().map(Attempt::leader).collect();
    let queued = board.start("fake", "say my turn");

    provost.kill();
    // Four end while no daemon runs, the others go on.
    fs::write(&early, "").unwrap();
    wait_until("four have ended", || !leaders[..4].iter().any(|pid| processes::is_alive(*pid)));
    provost.start();
    let alive = &attempts[4..];
    assert_eq!(alive.iter().map(Attempt::leader).collect::<Vec<_>>(), leaders[4..]);
    assert!(alive.iter().all(|attempt| attempt.status()["phase"] == "running"));
    assert!(leaders[4..].iter().all(|pid| processes::is_alive(*pid)));

    fs::write(&late, "").unwrap();
    for (code, attempt) in attempts.iter().enumerate() {
        let status = attempt.settled();
        let state = if code == 0 { "completed" } else { "failed" };
        assert_eq!(status["exit_code"], code, "{status}");
        assert_eq!((&status["state"], &status["exit_signal"]), (&json!(state), &Value::Null));
        whole(&attempt.lines("stdout"), &attempt.lines("stderr"));
    }
    assert_eq!(queued.settled()["state"], "completed");
}

#[test]
fn a_signal_that_ended_an_executor_while_no_daemon_ran_is_known() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let leader = attempt.leader();
    provost.kill();
    processes::kill_hard(leader);
    provost.start();
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["exit_signal"]), (&json!("failed"), &json!(9)));
    assert!(!status["failure_summary"].as_str().unwrap().is_empty());
}

#[test]
fn a_stop_works_on_what_an_earlier_daemon_started() {
    let provost = Provost::new().config("[daemon]\nstop_grace_ms = 300").started();
    let attempt = provost.board().start("fake", "ignore-term\nfork\nsay up\nhang");
    attempt.has_said("up");
    provost.kill_and_start();
    let stopped = attempt.stop();
    assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
    assert_eq!(stopped["exit_signal"], 9);
    attempt.leaves_no_process();
}

#[test]
fn a_stop_that_a_kill_cut_off_is_brought_to_its_end() {
    let provost = Provost::new().config("[daemon]\nstop_grace_ms = 1500").started();
    let attempt = provost.board().start("fake", "ignore-term\nsay up\nhang");
    attempt.has_said("up");
    let stop = json!({"attempt_id": attempt.id, "request_id": "end it"});
    let mut client = provost.connect();
    let cut_off = client.begin("stop_attempt", &stop);
    attempt.in_phase("stopping");
    provost.kill();
    assert!(client.outcome(cut_off).is_none());
    provost.start();
    let first = provost.answer("stop_attempt", &stop);
    let again = provost.answer("stop_attempt", &stop);
    assert_eq!(first.value["survivors"], 0);
    assert!(again.is_deduplicated);
    assert_eq!(again.text, first.text);
    attempt.leaves_no_process();
}

#[test]
fn queued_attempts_start_after_a_restart_in_their_order() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let gate = provost.path("gate");
    let wait = format!("run while ! [ -e {} ]; do sleep 0.05; done", gate.display());
    let first = board.start("fake", &wait);
    let order = provost.path("order");
    let waiting: Vec<Attempt> = (0..3)
        .map(|n| board.start("fake", &format!("run echo {n} >> {}", order.display())))
        .collect();
    provost.kill_and_start();
    for attempt in &waiting {
        let status = attempt.status();
        assert_eq!(status["phase"], "queued", "{status}\n{}", first.status());
    }
    fs::write(&gate, "").unwrap();
    for attempt in waiting.iter().chain([&first]) {
        assert_eq!(attempt.settled()["state"], "completed");
    }
    assert_eq!(fs::read_to_string(order).unwrap(), "0\n1\n2\n");
}

/// What an entry says, without the numbers that differ between attempts.
fn essence(entries: &[Value]) -> Vec<Value> {
    let strip = |entry: &Value| {
        let mut entry = entry.clone();
        let fields = entry.as_object_mut().unwrap();
        fields.remove("at");
        fields.remove("execution_process_id");
        entry
    };
    entries.iter().map(strip).collect()
}

#[test]
fn the_normalized_log_is_the_same_as_without_kills() {
    let provost = Provost::running();
    let board = provost.board();
    let gate = provost.path("gate");
    let wait = format!("run while ! [ -e {} ]; do sleep 0.02; done", gate.display());
    let prompt = format!(
        "say begin\nthink hard\nlines 500\nwrite a/b.txt some text\n{wait}\nlines 500\nsay end\nexit 3"
    );
    let disturbed = board.start("fake", &prompt);
    for text in ["begin", "line 500"] {
        disturbed.has_said(text);
        provost.kill_and_start();
    }
    fs::write(&gate, "").unwrap();
    disturbed.settled();
    provost.kill_and_start();
    let undisturbed = board.start("fake", &prompt);
    undisturbed.settled();
    assert_eq!(essence(&disturbed.normalized()), essence(&undisturbed.normalized()));
    let status = disturbed.status();
    assert_eq!((&status["exit_code"], &status["final_message"]), (&json!(3), &json!("end")));
}

#[test]
fn a_follower_never_sees_an_entry_change_over_kills() {
    let provost = Provost::new().executor("numbering", PLAIN, NUMBERING).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("numbering", &numbering(0, &gate));
    let mut seen = Vec::new();
    for round in 1..4 {
        attempt.has_said(&format!("out {}", round * 20));
        attempt.catch_up(&mut seen);
        provost.kill_and_start();
    }
    fs::write(&gate, "").unwrap();
    attempt.settled();
    attempt.catch_up(&mut seen);
    assert_eq!(seen, attempt.raw());
    let of = |stream: &str| texts(seen.iter().filter(|entry| entry["stream"] == stream));
    whole(&of("stdout"), &of("stderr"));
}

#[test]
fn sigterm_ends_the_daemon_and_leaves_executors_running() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let leader = attempt.leader();
    processes::signal(provost.pid(), nix::sys::signal::Signal::SIGTERM);
    assert_eq!(provost.ended(), Some(0));
    assert!(processes::is_alive(leader));
    provost.start();
    assert_eq!(attempt.status()["phase"], "running");
    assert_eq!(attempt.leader(), leader);
}

//! Shims are killed: alone, and with the daemon.

use std::fs;

use serde_json::json;

use crate::harness::{PLAIN, Provost, processes, wait_until};
use crate::lines::{NUMBERING, contiguous, numbering, whole};

/// Writes numbered lines, hundreds at a time, until a file is there or there are
/// very many, then says how many there were.
const FLOOD: &str = r#"
read gate
from=1
until [ -e "$gate" ] || [ $from -gt 1000000 ]; do
    seq -f 'line %.0f' $from $((from + 199))
    from=$((from + 200))
    sleep 0.005
done
echo "count $((from - 1))" >&2
exit 21
"#;

#[test]
fn a_shim_killed_in_a_flood_costs_no_byte_and_no_exit_code() {
    let provost = Provost::new().executor("flood", PLAIN, FLOOD).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("flood", &gate.to_string_lossy());
    attempt.has_said("line 200");
    for _ in 0..3 {
        processes::kill_hard(attempt.shim());
    }
    assert_eq!(attempt.status()["phase"], "running");
    fs::write(gate, "").unwrap();
    let status = attempt.settled();
    assert_eq!((&status["exit_code"], &status["exit_signal"]), (&json!(21), &json!(null)));
    let count = contiguous(&attempt.lines("stdout"), "line");
    assert_eq!(attempt.lines("stderr"), [format!("count {count}")]);
}

#[test]
fn an_attempt_whose_shim_was_killed_outlives_the_daemon_as_well() {
    let provost = Provost::new().executor("numbering", PLAIN, NUMBERING).started();
    let gate = provost.path("gate");
    let attempt = provost.board().start("numbering", &numbering(5, &gate));
    attempt.has_said("out 3");
    let leader = attempt.leader();
    processes::kill_hard(attempt.shim());
    assert!(processes::is_alive(attempt.shim()), "another shim goes on");
    attempt.has_said("out 30");
    provost.kill_and_start();
    attempt.has_said("out 60");
    assert_eq!(attempt.leader(), leader);
    fs::write(gate, "").unwrap();
    assert_eq!(attempt.settled()["state"], "failed");
    whole(&attempt.lines("stdout"), &attempt.lines("stderr"));
}

#[test]
fn a_stop_after_the_shim_was_killed_leaves_no_process() {
    let provost = Provost::new().config("[daemon]\nstop_grace_ms = 300").started();
    let attempt = provost.board().start("fake", "ignore-term\nfork\nsay up\nhang");
    attempt.has_said("up");
    processes::kill_hard(attempt.shim());
    let stopped = attempt.stop();
    assert_eq!((&stopped["stopped"], &stopped["survivors"]), (&json!(true), &json!(0)));
    attempt.leaves_no_process();
}

#[test]
fn a_shim_killed_at_its_very_end_leaves_no_socket() {
    let provost = Provost::new();
    provost.start_to_die_at("shim:tree.gone");
    let attempt = provost.board().start("fake", "say bye");
    assert_eq!(attempt.settled()["state"], "completed");
    wait_until("its socket is gone", || !attempt.dir().join("sock").exists());
    attempt.leaves_no_process();
}

#[test]
fn a_shim_killed_before_the_daemon_held_on_ends_the_attempt_once_and_says_so() {
    let provost = Provost::new();
    provost.start_to_die_at("shim:handshake.made");
    let attempt = provost.board().start("fake", "say up\nhang");
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.contains("died while it was starting it"), "{summary}");
    attempt.leaves_no_process();
    provost.kill_and_start();
    assert_eq!(attempt.said("process_end").len(), 1);
}

#[test]
fn daemon_and_shim_killed_at_once_end_the_attempt_as_failed_and_leave_no_orphan() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "ignore-term\nfork\nsay up\nhang");
    attempt.has_said("up");
    let (shim, leader) = (attempt.shim(), attempt.leader());
    provost.kill();
    processes::kill_hard(shim);
    assert!(processes::is_alive(leader));
    provost.start();
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    assert!(!status["failure_summary"].as_str().unwrap().is_empty());
    wait_until("no orphan is left", || attempt.processes().is_empty());
    assert!(attempt.lines("stdout").iter().any(|line| line.contains("up")));
}

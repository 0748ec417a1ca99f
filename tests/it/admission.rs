//! `max_running_attempts`: who runs, who waits, and in which order.

use std::fs;

use serde_json::json;

use crate::harness::{Attempt, Provost, run_until, wait_until};

#[test]
fn no_more_run_than_may_and_all_get_their_turn() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 2").started();
    let board = provost.board();
    let (running, gate) = (provost.path("running"), provost.path("gate"));
    fs::create_dir(&running).unwrap();
    let prompt = format!(
        "run touch {0}/$PROVOST_ATTEMPT_ID; until [ -e {1} ]; do sleep 0.02; done; ls {0} | wc -l; rm {0}/$PROVOST_ATTEMPT_ID",
        running.display(),
        gate.display()
    );
    let attempts: Vec<Attempt> = (0..6).map(|_| board.start("fake", &prompt)).collect();
    wait_until("two run", || fs::read_dir(&running).unwrap().count() == 2);
    for attempt in &attempts[..2] {
        attempt.in_phase("running");
    }
    assert!(attempts[2..].iter().all(|attempt| {
        let status = attempt.status();
        let is_waiting = status["phase"] == "queued" && status["state"] == "idle";
        is_waiting && attempt.started["execution_process_id"].is_null()
    }));
    fs::write(&gate, "").unwrap();
    for attempt in &attempts {
        assert_eq!(attempt.settled()["state"], "completed");
        let counted = attempt.said("tool_result")[0].trim().parse::<usize>().unwrap();
        assert!((1..=2).contains(&counted), "{counted} ran at once");
    }
}

#[test]
fn the_queue_goes_by_priority_and_then_by_arrival() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let (order, gate) = (provost.path("order"), provost.path("gate"));
    let first = board.start("fake", &run_until(&gate));
    let priorities = ["low", "medium", "critical", "medium", "high", "critical"];
    let start = |(n, priority): (usize, &&str)| {
        let task = board.task_with("queued", &json!({"priority": priority}));
        let prompt = format!("run echo {n} >> {}", order.display());
        board.start_at(&task, "fake", &json!({"prompt": prompt}))
    };
    let attempts: Vec<Attempt> = priorities.iter().enumerate().map(start).collect();
    fs::write(gate, "").unwrap();
    for attempt in attempts.iter().chain([&first]) {
        assert_eq!(attempt.settled()["state"], "completed");
    }
    let order = fs::read_to_string(order).unwrap();
    assert_eq!(order.lines().collect::<Vec<_>>(), ["2", "5", "4", "1", "3", "0"]);
}

#[test]
fn a_start_that_fails_frees_its_place() {
    let provost = Provost::new()
        .config("[daemon]\nmax_running_attempts = 1\n[executors.gone]\nprotocol = \"plain\"\ncommand = [\"/bin/sh\", \"-c\", \"exit 1\"]")
        .started();
    let board = provost.board();
    let failing: Vec<Attempt> = (0..3).map(|_| board.start("gone", "x")).collect();
    let last = board.start("fake", "say my turn");
    assert_eq!(last.settled()["state"], "completed");
    assert!(failing.iter().all(|attempt| attempt.settled()["state"] == "failed"));
}

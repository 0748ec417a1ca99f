//! `start_task_attempt` under kills: never two attempts, never half of one.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Attempt, Provost, wait_until};

/// How many entries the home's folder of attempts has.
fn begun(provost: &Provost) -> usize {
    fs::read_dir(provost.home().join("attempts")).unwrap().count()
}

#[test]
fn starts_cut_off_by_kills_and_sent_again_make_one_attempt_each() {
    const STARTS: usize = 6;
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 3").started();
    let board = provost.board();
    for round in 0..4 {
        let tasks: Vec<String> = (0..STARTS).map(|_| board.task("burst")).collect();
        let arguments = |n: usize| {
            json!({"task_id": tasks[n], "executor": "fake", "prompt": "say done",
                "request_id": format!("{round}-{n}")})
        };
        // Killed after 0, 1, 2 … of them have got their folder.
        let enough = begun(&provost) + round;
        let mut client = provost.connect();
        let ids: Vec<u64> =
            (0..STARTS).map(|n| client.begin("start_task_attempt", &arguments(n))).collect();
        wait_until("enough have begun", || begun(&provost) >= enough);
        provost.kill();
        let before: Vec<Option<Value>> =
            ids.into_iter().map(|id| client.outcome(id).map(|answer| answer.value)).collect();
        provost.start();
        for (n, before) in before.into_iter().enumerate() {
            let again = provost.call("start_task_attempt", &arguments(n));
            assert!(before.is_none_or(|before| before == again), "the same answer");
            let status = Attempt::new(&provost, again).settled();
            assert_eq!(status["state"], "completed", "{status}");
            let listed = provost.call("list_task_attempts", &json!({"task_id": tasks[n]}));
            let [attempt] = listed["attempts"].as_array().unwrap().as_slice() else {
                panic!("one attempt: {listed}")
            };
            assert_eq!(attempt["attempt_id"], status["attempt_id"]);
        }
    }
    assert_eq!(board.repo().attempt_branches().len(), 4 * STARTS);
    assert_eq!(board.repo().worktrees().len(), 4 * STARTS + 1);
}

#[test]
fn a_start_cut_off_by_a_kill_tells_its_beginning_once() {
    let provost = Provost::running();
    let board = provost.board();
    let mut attempts = Vec::new();
    for wanted in ["worktrees.json", "manifest.json", "started.json"] {
        let attempt = board.start("fake", "say done");
        let dir = provost.home().join("attempts").join(&attempt.id);
        let is_there = || {
            let process = attempt.started["execution_process_id"].as_str().unwrap();
            dir.join(wanted).exists() || dir.join(process).join(wanted).exists()
        };
        wait_until(wanted, is_there);
        provost.kill_and_start();
        attempts.push(attempt);
    }
    for attempt in attempts {
        assert_eq!(attempt.settled()["state"], "completed");
        let entries = attempt.normalized();
        let kinds: Vec<&str> = entries.iter().map(|e| e["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["user_message", "process_start", "assistant_message", "process_end"]);
    }
}

#[test]
fn thirty_two_starts_at_once_in_one_repository_all_succeed() {
    const STARTS: usize = 32;
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 32").started();
    let board = provost.board();
    let tasks: Vec<String> = (0..STARTS).map(|n| board.task(&format!("task {n}"))).collect();
    let started: Vec<Value> = std::thread::scope(|scope| {
        let start = |task: &str| {
            let arguments = json!({"task_id": task, "executor": "fake", "prompt": "say done"});
            provost.connect().call("start_task_attempt", &arguments).output()
        };
        let calls: Vec<_> = tasks.iter().map(|task| scope.spawn(move || start(task))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for started in started {
        let attempt = Attempt::new(&provost, started);
        assert_eq!(attempt.settled()["state"], "completed", "{}", attempt.status());
    }
    assert_eq!(board.repo().attempt_branches().len(), STARTS);
    assert_eq!(board.repo().worktrees().len(), STARTS + 1);
}

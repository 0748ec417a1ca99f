//! `getNextTask` with `claim`: one task, one worker, whatever dies.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::harness::{Client, Provost, eventually, wait_until};

const NO_LIMITS: &str = "[worker]\nagent_per_minute = 0\nall_per_minute = 0\nburst_per_second = 0";

fn claim(worker: &mut Client) -> Option<Value> {
    let answer = worker.ask("getNextTask", &json!({"claim": true}));
    assert!(answer.get("error").is_none(), "refused: {answer}");
    let task = answer["result"]["task"].clone();
    (!task.is_null()).then_some(task)
}

#[test]
fn two_workers_never_hold_one_task_whatever_is_killed() {
    const TASKS: usize = 48;
    let provost = Provost::new().config(NO_LIMITS).started();
    let board = provost.board();
    for number in 0..TASKS {
        board.task(&format!("task {number}"));
    }
    // Who was given each task; and how many workers have gone with a call under way.
    let given: Mutex<BTreeMap<String, Vec<usize>>> = Mutex::default();
    let count = || given.lock().unwrap().len();
    thread::scope(|scope| {
        for number in 0..6 {
            let (given, board, provost) = (&given, &board, &provost);
            scope.spawn(move || {
                let mut worker = provost.worker(&board.repo().path);
                let mut mine = 0;
                while let Some(task) = claim(&mut worker) {
                    assert_eq!(
                        (&task["status"], &task["claimed"]),
                        (&json!("in-progress"), &json!(true))
                    );
                    let handle = task["taskId"].as_str().unwrap().to_owned();
                    given.lock().unwrap().entry(handle).or_default().push(number);
                    mine += 1;
                    // Its bridge is killed with a claim on its way; the next one is another agent.
                    if number == 0 && mine % 3 == 0 {
                        worker.request("getNextTask", &json!({"claim": true}));
                        worker = provost.worker(&board.repo().path);
                    }
                }
            });
        }
        for part in [TASKS / 4, TASKS / 2] {
            wait_until("some are taken", || count() >= part);
            provost.kill_and_start();
        }
    });
    let given = given.into_inner().unwrap();
    let twice: Vec<_> = given.iter().filter(|(_, to)| to.len() > 1).collect();
    assert!(twice.is_empty(), "given to two: {twice:?}");
    assert!(given.len() > TASKS / 2, "{given:?}");
    // A claim whose answer nobody read holds its task all the same.
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id, "limit": 200}));
    let tasks = listed["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["status"] == "inprogress"));
}

#[test]
fn a_claim_dies_with_its_attempt() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "hang");
    attempt.in_phase("running");
    board.task("the other");
    let mut inside = provost.inside(&attempt.id);
    let own = attempt.status()["task_id"].clone();
    provost.call("update_task", &json!({"task_id": own, "status": "inreview"}));
    let task = claim(&mut inside).unwrap();
    assert_eq!((&task["title"], task.get("claimedUntil")), (&json!("the other"), None));
    let mut outside = provost.worker(&board.repo().path);
    assert_eq!(claim(&mut outside), None, "it is held");
    provost.kill_and_start();
    assert_eq!(claim(&mut outside), None, "it still is");
    attempt.stop();
    assert_eq!(claim(&mut outside).unwrap()["title"], "the other");
}

#[test]
fn a_claim_of_an_agent_that_calls_no_more_expires() {
    let provost = Provost::new().config(&format!("{NO_LIMITS}\nclaim_secs = 2")).started();
    let board = provost.board();
    board.task("a task");
    let mut gone = provost.worker(&board.repo().path);
    assert!(claim(&mut gone).unwrap()["claimedUntil"].is_string());
    drop(gone);
    let mut other = provost.worker(&board.repo().path);
    let task = eventually("the claim has expired", || claim(&mut other));
    assert_eq!(task["taskId"], "TASK-001");
    // An agent that calls keeps its claim beyond the lease that it was given first.
    let until: DateTime<Utc> = task["claimedUntil"].as_str().unwrap().parse().unwrap();
    let mut third = provost.worker(&board.repo().path);
    eventually("the first lease has run out", || {
        other.ask("getNextTask", &json!({}));
        assert_eq!(claim(&mut third), None);
        (Utc::now() > until).then_some(())
    });
}

#[test]
fn the_same_claim_again_is_the_same_task() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("a");
    board.task("b");
    let mut worker = provost.worker(&board.repo().path);
    let again = json!({"claim": true, "request_id": "one"});
    let first = worker.ask("getNextTask", &again)["result"].clone();
    provost.kill_and_start();
    assert_eq!(worker.ask("getNextTask", &again)["result"], first);
    assert_eq!(claim(&mut worker).unwrap()["title"], "b", "another claim is another task");
    assert_eq!(claim(&mut worker), None);
}

#[test]
fn a_claim_asks_for_write_access_and_for_a_ready_task() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("a");
    let mut reader = provost.worker_with(&board.repo().path, &["--access", "read"]);
    assert_eq!(reader.ask("getNextTask", &json!({}))["result"]["queueLength"], 1);
    let refused = reader.ask("getNextTask", &json!({"claim": true}));
    assert_eq!(refused["error"]["code"], 403, "{refused}");
    let mut writer = provost.worker(&board.repo().path);
    let refused = writer.ask("getNextTask", &json!({"claim": true, "filter": "all"}));
    assert_eq!(refused["error"]["code"], 400, "{refused}");
}

#[test]
fn what_is_put_back_on_the_board_is_anybodys() {
    let provost = Provost::new().config(NO_LIMITS).started();
    let board = provost.board();
    let task = board.task("one");
    let [mut first, mut second] = [(); 2].map(|()| provost.worker(&board.repo().path));
    assert_eq!(claim(&mut first).unwrap()["taskId"], "TASK-001");
    assert!(claim(&mut second).is_none());
    provost.call("update_task", &json!({"task_id": task, "title": "another"}));
    assert!(claim(&mut second).is_none(), "it is held as before");
    provost.call("update_task", &json!({"task_id": task, "status": "todo"}));
    assert_eq!(claim(&mut second).unwrap()["taskId"], "TASK-001");
    assert!(claim(&mut first).is_none());
}

#[test]
fn an_agent_inside_an_attempt_reports_on_its_own_task_and_on_those_that_it_has_claimed() {
    let provost = Provost::new().config(NO_LIMITS).started();
    let board = provost.board();
    let attempt = board.start("fake", "hang");
    attempt.in_phase("running");
    board.task("the other");
    let mut inside = provost.inside(&attempt.id);
    let other = json!({"taskId": "TASK-002", "status": "done"});
    let refused = inside.ask("reportTaskDone", &other);
    assert_eq!(refused["error"]["data"]["error"]["code"], "NOT_PERMITTED", "{refused}");
    let own = inside.ask("reportTaskDone", &json!({"taskId": "TASK-001", "status": "done"}));
    assert_eq!(own["result"]["success"], true, "{own}");
    assert_eq!(claim(&mut inside).unwrap()["taskId"], "TASK-002");
    assert_eq!(inside.ask("reportTaskDone", &other)["result"]["success"], true);
    let again = inside.ask("reportTaskDone", &other);
    assert_eq!(again["error"]["data"]["error"]["code"], "INVALID_STATE", "it is done: {again}");
}

//! `request_id`: the same call never acts twice.

use serde_json::{Value, json};

use crate::harness::{Answer, Provost};

#[test]
fn the_same_call_from_twenty_connections_at_once_makes_one_task() {
    let provost = Provost::running();
    let board = provost.board();
    let create = json!({"project_id": board.project_id, "title": "once", "request_id": "r"});
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let call = || provost.connect().call("create_task", &create);
        let calls: Vec<_> = (0..20).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let first = &answers[0];
    assert!(answers.iter().all(|answer| !answer.is_error && answer.text == first.text));
    assert_eq!(answers.iter().filter(|answer| !answer.is_deduplicated).count(), 1);
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn the_same_start_from_twenty_connections_at_once_makes_one_attempt() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("x");
    let start = json!({"task_id": task, "executor": "fake", "prompt": "say hi", "request_id": "r"});
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let call = || provost.connect().call("start_task_attempt", &start);
        let calls: Vec<_> = (0..20).map(|_| scope.spawn(call)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| !answer.is_error && answer.text == answers[0].text));
    assert_eq!(answers.iter().filter(|answer| !answer.is_deduplicated).count(), 1);
    let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
    assert_eq!(listed["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn every_changing_tool_gives_the_same_bytes_again_also_after_a_kill() {
    let provost = Provost::running();
    let board = provost.board();
    let (repo, more) = (provost.repo("other"), provost.repo("more"));
    let (task, doomed) = (board.task("x"), board.task("doomed"));
    let attempt = board.start("fake", "hang");
    let calls = [
        ("create_project", json!({"name": "p", "repos": [{"path": repo.path}]})),
        ("add_repo", json!({"project_id": board.project_id, "path": more.path})),
        ("create_task", json!({"project_id": board.project_id, "title": "t"})),
        ("update_task", json!({"task_id": task, "title": "new"})),
        ("delete_task", json!({"task_id": doomed})),
        ("start_task_attempt", json!({"task_id": task, "executor": "fake", "prompt": "say x"})),
        ("stop_attempt", json!({"attempt_id": attempt.id})),
    ];
    let with_id = |arguments: &Value| {
        let mut arguments = arguments.clone();
        arguments["request_id"] = json!("the same for all");
        arguments
    };
    let first: Vec<Answer> =
        calls.iter().map(|(tool, arguments)| provost.answer(tool, &with_id(arguments))).collect();
    for kill in [false, true] {
        if kill {
            provost.kill_and_start();
        }
        for ((tool, arguments), first) in calls.iter().zip(&first) {
            let again = provost.answer(tool, &with_id(arguments));
            assert_eq!(again.text, first.text, "{tool}");
            assert!(again.is_deduplicated && !first.is_deduplicated, "{tool}");
        }
    }
}

#[test]
fn what_means_the_same_is_the_same_payload() {
    let provost = Provost::running();
    let board = provost.board();
    let project = &board.project_id;
    let first = provost
        .answer("create_task", &json!({"project_id": project, "title": "t", "request_id": "r"}));
    let same = json!({"request_id": "r", "depends_on": [], "priority": "medium", "title": "t",
        "description": null, "project_id": project.to_uppercase()});
    let again = provost.answer("create_task", &same);
    assert_eq!(again.text, first.text);
    assert!(again.is_deduplicated);
}

#[test]
fn another_payload_is_a_conflict_and_another_tool_is_not() {
    let provost = Provost::running();
    let board = provost.board();
    let create =
        |title: &str| json!({"project_id": board.project_id, "title": title, "request_id": "r"});
    let task = provost.call("create_task", &create("one"))["task_id"].clone();
    let refusal = provost.refusal("create_task", &create("two"));
    assert_eq!(refusal["code"], "idempotency_conflict");
    assert!(refusal["hint"].as_str().unwrap().contains("request_id"));
    provost.call("update_task", &json!({"task_id": task, "title": "two", "request_id": "r"}));
}

#[test]
fn a_refused_call_does_not_use_up_its_id() {
    let provost = Provost::running();
    let board = provost.board();
    let start = |executor: &str| {
        json!({"task_id": board.task("x"), "executor": executor, "prompt": "say hi",
            "request_id": "r"})
    };
    assert_eq!(
        provost.refusal("start_task_attempt", &start("nobody"))["code"],
        "executor_not_found"
    );
    provost.call("start_task_attempt", &start("fake"));
}

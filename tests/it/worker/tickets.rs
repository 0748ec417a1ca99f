//! `createTicket`, as a tool and as a bare method.

use serde_json::{Value, json};

use crate::harness::Provost;

#[test]
fn a_ticket_is_made_by_tool_and_by_bare_method_and_has_a_handle() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("a task");
    let mut worker = provost.worker(&board.repo().path);
    let bare = worker.ask("createTicket", &json!({"title": "Test"}));
    assert_eq!(bare["result"]["success"], true, "{bare}");
    assert_eq!(bare["result"]["ticket"]["id"], "TK-001");
    worker.initialize();
    let about = json!({"title": "Test", "task_id": "task-001", "type": "blocker"});
    let called = worker.call("createTicket", &about).output();
    assert_eq!(called["ticket"]["id"], "TK-002");
    assert_eq!(called["ticket"]["taskId"], "TASK-001");
    let about = json!({"title": "Test", "task_id": task});
    assert_eq!(worker.call("createTicket", &about).output()["ticket"]["taskId"], "TASK-001");
}

#[test]
fn the_same_request_makes_one_ticket() {
    let provost = Provost::running();
    let board = provost.board();
    let mut worker = provost.worker(&board.repo().path);
    let twice = json!({"title": "Test", "request_id": "one"});
    let first = worker.ask("createTicket", &twice)["result"].clone();
    provost.kill_and_start();
    assert_eq!(worker.ask("createTicket", &twice)["result"], first);
    worker.initialize();
    assert_eq!(worker.call("createTicket", &twice).output(), first);
    let next = worker.ask("createTicket", &json!({"title": "Test"}));
    assert_eq!(next["result"]["ticket"]["id"], "TK-002");
}

#[test]
fn handles_are_counted_in_each_project_and_given_to_old_tasks() {
    let provost = Provost::running();
    let (one, other) = (provost.board(), provost.repo("other"));
    let made =
        provost.call("create_project", &json!({"name": "other", "repos": [{"path": other.path}]}));
    let mut there = provost.worker(&other.path);
    let mut here = provost.worker(&one.repo().path);
    for worker in [&mut here, &mut there] {
        let ticket = worker.ask("createTicket", &json!({"title": "Test"}));
        assert_eq!(ticket["result"]["ticket"]["id"], "TK-001");
    }
    let named = json!({"title": "Test", "project_id": made["project_id"]});
    assert_eq!(here.ask("createTicket", &named)["result"]["ticket"]["id"], "TK-002");
}

#[test]
fn a_worker_in_no_repository_has_to_name_one_of_several_projects() {
    let provost = Provost::running();
    let (one, other) = (provost.board(), provost.repo("other"));
    let alone = provost.worker(provost.home()).ask("createTicket", &json!({"title": "Test"}));
    assert_eq!(alone["result"]["success"], true, "the only project: {alone}");
    provost.call("create_project", &json!({"name": "other", "repos": [{"path": other.path}]}));
    let mut worker = provost.worker(provost.home());
    let lost = worker.ask("createTicket", &json!({"title": "Test"}));
    assert_eq!(lost["error"]["data"]["error"]["details"]["field"], "project_id");
    let projects = lost["error"]["data"]["error"]["details"]["projects"].clone();
    assert!(projects.as_array().unwrap().contains(&Value::from(one.project_id)));
}

#[test]
fn a_task_that_is_done_needs_no_ticket_against_it_any_more() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("a task");
    let mut worker = provost.worker(&board.repo().path);
    let blocker = json!({"title": "no key", "type": "blocker", "task_id": "TASK-001"});
    worker.ask("createTicket", &blocker);
    let report = json!({"task_id": "TASK-001", "status": "done"});
    let answer = worker.ask("reportTaskStatus", &report)["result"].clone();
    assert_eq!(answer["cascaded"]["ticketsResolved"], 1, "{answer}");
    assert!(
        answer["warnings"][0].as_str().unwrap().contains("TK-001 stood in its way"),
        "{answer}"
    );
    let all = provost.call("list_inbox", &json!({"status": "all"}));
    let ticket = &all["questions"][0];
    assert_eq!(
        (&ticket["status"], &ticket["answer"], &ticket["answered_by"]),
        (&Value::from("answered"), &Value::from("TASK-001 is done."), &Value::from("a task"))
    );
}

#[test]
fn a_ticket_tells_who_resolved_it_and_an_investigation_which_task_does() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("a task");
    let mut worker = provost.worker(&board.repo().path);
    worker.ask("createTicket", &json!({"title": "look"}));
    provost.verb(["answer", "TK-001", "seen"]);
    let all = provost.call("list_inbox", &json!({"status": "all"}));
    assert_eq!(all["questions"][0]["answered_by"], "person");
    let failure = json!({"taskId": "TASK-001", "testName": "t", "testFile": "t.rs",
        "failureDetails": {"error": "e"}, "previousStatus": "passing_before",
        "needsInvestigation": true, "actionNeeded": "investigate"});
    let answer = worker.ask("reportTestFailure", &failure)["result"].clone();
    assert!(answer["investigationTaskCreated"].is_object(), "{answer}");
    let refusal = provost.refusal("answer", &json!({"question_id": "TK-002", "answer": "x"}));
    assert_eq!(refusal["code"], "invalid_state", "{refusal}");
    assert!(refusal["hint"].as_str().unwrap().starts_with("Call get_task with task_id"));
}

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

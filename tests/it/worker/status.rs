//! `reportTaskStatus`, with what cascades from it.

use serde_json::{Value, json};

use super::desk::{self, ask, refused, status};
use crate::harness::Client;

fn report(worker: &mut Client, task: &str, said: &str) -> Value {
    ask(worker, "reportTaskStatus", &json!({"task_id": task, "status": said}))
}

/// Lets TASK-001 wait for an investigation, TASK-002.
fn investigated(worker: &mut Client) {
    let failure = json!({
        "taskId": "TASK-001", "testName": "adds", "testFile": "tests/sum.rs",
        "failureDetails": {"error": "assertion failed"}, "previousStatus": "never_passed",
        "needsInvestigation": true, "actionNeeded": "find out",
    });
    let answer = ask(worker, "reportTestFailure", &failure);
    assert_eq!(answer["blockingTask"]["blockingTaskId"], "TASK-002", "{answer}");
}

#[test]
fn progress_is_taken_with_its_metrics() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let full = json!({
        "task_id": "TASK-001", "status": "in_progress", "progress_percent": 40,
        "details": "Half of it is there",
        "metrics": {"tokens_used": 12000, "time_seconds": 33.5, "coverage_added": 1.5}, "priority": 2,
    });
    let mut worker = desk::worker(&board);
    let none = json!({"ticketsResolved": 0, "tasksUnblocked": 0});
    assert_eq!(
        ask(&mut worker, "reportTaskStatus", &full),
        json!({"acknowledged": true, "next_action": "continue", "cascaded": none})
    );
    assert_eq!(status(&board, "one"), "inprogress");
    // The status may be left out.
    let percent = json!({"task_id": "TASK-001", "progress_percent": 60});
    assert_eq!(ask(&mut worker, "reportTaskStatus", &percent)["next_action"], "continue");
}

#[test]
fn every_status_makes_of_the_task_what_it_says() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["blocked", "failed", "paused", "done", "other"]);
    let mut worker = desk::worker(&board);
    for (task, said, becomes) in [
        ("TASK-001", "blocked", "todo"),
        ("TASK-002", "failed", "inreview"),
        ("TASK-003", "paused", "inprogress"),
        ("TASK-004", "done", "done"),
    ] {
        assert_eq!(report(&mut worker, task, said)["next_action"], "get_next_task", "{said}");
        assert_eq!(status(&board, said), becomes);
    }
    let verified = json!({"task_id": "TASK-VERIFY-001", "status": "done"});
    ask(&mut worker, "reportTaskStatus", &verified);
    report(&mut worker, "TASK-003", "failed");
    report(&mut worker, "TASK-005", "failed");
    assert_eq!(report(&mut worker, "TASK-001", "failed")["next_action"], Value::Null);
}

#[test]
fn an_investigation_that_is_done_resolves_its_ticket_and_frees_its_task() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    investigated(&mut worker);
    // That it is blocked, as the worker says too, ends with what blocks it.
    report(&mut worker, "TASK-001", "blocked");
    assert_eq!(
        report(&mut worker, "TASK-002", "done"),
        json!({"acknowledged": true, "next_action": "get_next_task",
            "cascaded": {"ticketsResolved": 1, "tasksUnblocked": 1}})
    );
    let answer = report(&mut worker, "TASK-001", "done");
    assert!(answer.get("warnings").is_none(), "{answer}");
}

#[test]
fn a_task_that_something_else_blocks_is_not_counted_as_free() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    investigated(&mut worker);
    let ticket = json!({"title": "no key", "type": "blocker", "task_id": "TASK-001"});
    ask(&mut worker, "createTicket", &ticket);
    let cascaded = report(&mut worker, "TASK-002", "done")["cascaded"].clone();
    assert_eq!(cascaded, json!({"ticketsResolved": 1, "tasksUnblocked": 0}));
}

#[test]
fn report_task_status_task_not_found() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    let unknown = json!({"task_id": "TASK-999", "status": "done"});
    let (number, error) = refused(&mut worker, "reportTaskStatus", &unknown);
    assert_eq!(number, 404);
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("RESOURCE_NOT_FOUND"), &json!(false))
    );
}

#[test]
fn report_task_status_invalid_state() {
    let provost = desk::provost();
    let mut worker = desk::worker(&desk::board(&provost, ["one"]));
    let wrong = json!({"task_id": "TASK-001", "status": "invalid_value"});
    let (_, error) = refused(&mut worker, "reportTaskStatus", &wrong);
    assert_eq!((&error["code"], &error["retryable"]), (&json!("INVALID_PARAM"), &json!(false)));
    assert_eq!(error["details"]["field"], "status");
    for (field, value) in [
        ("progress_percent", json!(101)),
        ("details", json!("x".repeat(601))),
        ("priority", json!(4)),
    ] {
        let wrong = json!({"task_id": "TASK-001", field: value});
        assert_eq!(refused(&mut worker, "reportTaskStatus", &wrong).1["details"]["field"], field);
    }
}

#[test]
fn report_task_status_cascaded_failure_is_rolled_back_whole() {
    let provost = desk::provost();
    let board = desk::board(&provost, ["one"]);
    let mut worker = desk::worker(&board);
    investigated(&mut worker);
    provost.sql(&["CREATE TRIGGER no_update BEFORE UPDATE ON tickets \
                   BEGIN SELECT RAISE(ABORT, 'the disk is on fire'); END"]);
    let investigated = json!({"task_id": "TASK-002", "status": "done", "request_id": "r"});
    worker.initialize();
    let refusal = worker.call("reportTaskStatus", &investigated).refusal();
    assert_eq!(refusal["success"], false);
    assert_eq!(refusal["error"]["code"], "INTERNAL_ERROR");
    assert_eq!(refusal["cascaded"], json!({"ticketsResolved": 0, "tasksUnblocked": 0}));
    assert_eq!(status(&board, "Investigate: adds fails"), "todo");
    provost.sql(&["DROP TRIGGER no_update"]);
    let answer = worker.call("reportTaskStatus", &investigated).output();
    assert_eq!(answer["cascaded"], json!({"ticketsResolved": 1, "tasksUnblocked": 1}));
}

//! What is refused, under which code, and that the hint leads on.

use serde_json::{Value, json};

use crate::harness::{Board, Provost};

/// An id that was never issued.
const NONE: &str = "01900000-0000-7000-8000-000000000000";

/// A tool, arguments that it must refuse, the code, and what the hint names.
type Case = (&'static str, Value, &'static str, &'static str);

/// Faults of form, for which the field at fault is named.
fn malformed() -> Vec<Case> {
    let long = "x".repeat(1001);
    vec![
        ("create_task", json!({}), "missing_required", "project_id"),
        ("create_task", json!({"project_id": NONE}), "missing_required", "title"),
        (
            "create_task",
            json!({"project_id": null, "title": "t"}),
            "missing_required",
            "project_id",
        ),
        ("create_task", json!({"projectId": NONE, "title": "t"}), "unknown_field", "project_id"),
        (
            "create_task",
            json!({"project_id": NONE, "title": "t", "tag": 1}),
            "unknown_field",
            "tag",
        ),
        (
            "create_task",
            json!({"project_id": "app", "title": "t"}),
            "invalid_argument",
            "project_id",
        ),
        ("create_task", json!({"project_id": 7, "title": "t"}), "invalid_argument", "project_id"),
        ("create_task", json!({"project_id": NONE, "title": ""}), "invalid_argument", "title"),
        ("create_task", json!({"project_id": NONE, "title": long}), "invalid_argument", "title"),
        (
            "create_task",
            json!({"project_id": NONE, "title": "t", "priority": "urgent"}),
            "invalid_argument",
            "priority",
        ),
        (
            "create_task",
            json!({"project_id": NONE, "title": "t", "priority": "hihg"}),
            "invalid_argument",
            "high",
        ),
        (
            "create_task",
            json!({"project_id": NONE, "title": "t", "depends_on": "x"}),
            "invalid_argument",
            "depends_on",
        ),
        (
            "create_task",
            json!({"project_id": NONE, "title": "t", "request_id": ""}),
            "invalid_argument",
            "request_id",
        ),
        (
            "create_task",
            json!({"project_id": NONE, "title": "t", "request_id": "r".repeat(129)}),
            "invalid_argument",
            "request_id",
        ),
        ("list_tasks", json!({}), "missing_required", "project_id"),
        ("list_tasks", json!({"project_id": NONE, "status": "open"}), "invalid_argument", "status"),
        ("list_tasks", json!({"project_id": NONE, "limit": 0}), "invalid_argument", "limit"),
        ("list_tasks", json!({"project_id": NONE, "limit": -1}), "invalid_argument", "limit"),
        ("list_tasks", json!({"project_id": NONE, "limit": "5"}), "invalid_argument", "limit = 5"),
        ("list_tasks", json!({"project_id": NONE, "limit": 1.5}), "invalid_argument", "limit"),
        (
            "list_tasks",
            json!({"project_id": NONE, "updated_since": "yesterday"}),
            "invalid_argument",
            "updated_since",
        ),
        ("list_projects", json!({"limit": true}), "invalid_argument", "limit"),
        ("list_projects", json!({"cursor": "garbled"}), "invalid_argument", "cursor"),
        ("list_executors", json!({"verbose": true}), "unknown_field", "list_executors"),
        ("update_task", json!({"task_id": NONE}), "missing_required", "title"),
        (
            "update_task",
            json!({"task_id": NONE, "status": "finished"}),
            "invalid_argument",
            "status",
        ),
        ("start_task_attempt", json!({"task_id": NONE}), "missing_required", "executor"),
        (
            "start_task_attempt",
            json!({"task_id": NONE, "executor": "fake", "repos": []}),
            "invalid_argument",
            "repos",
        ),
        (
            "start_task_attempt",
            json!({"task_id": NONE, "executor": "fake", "repos": [{}]}),
            "missing_required",
            "repos[0].repo_id",
        ),
        (
            "start_task_attempt",
            json!({"task_id": NONE, "executor": "fake", "repos": [{"repo_id": NONE, "branch": "b"}]}),
            "unknown_field",
            "repos[0]",
        ),
        (
            "start_task_attempt",
            json!({"task_id": NONE, "executor": "fake", "ignore_dependencies": "true"}),
            "invalid_argument",
            "ignore_dependencies = true",
        ),
        ("get_attempt_status", json!({}), "ambiguous_target", "attempt_id"),
        (
            "get_attempt_status",
            json!({"attempt_id": NONE, "attempt_ids": [NONE]}),
            "ambiguous_target",
            "attempt_ids",
        ),
        ("get_attempt_status", json!({"attempt_ids": []}), "invalid_argument", "attempt_ids"),
        (
            "get_attempt_status",
            json!({"attempt_ids": vec![NONE; 51]}),
            "invalid_argument",
            "attempt_ids",
        ),
        (
            "tail_attempt_logs",
            json!({"attempt_id": NONE, "cursor": 1, "after_entry_index": 1}),
            "mixed_pagination",
            "after_entry_index",
        ),
        (
            "tail_attempt_logs",
            json!({"attempt_id": NONE, "channel": "cooked"}),
            "invalid_argument",
            "channel",
        ),
        (
            "tail_attempt_logs",
            json!({"attempt_id": NONE, "cursor": -1}),
            "invalid_argument",
            "cursor",
        ),
        (
            "tail_attempt_logs",
            json!({"attempt_id": NONE, "after_entry_index": -2}),
            "invalid_argument",
            "after_entry_index",
        ),
        (
            "tail_attempt_logs",
            json!({"attempt_id": NONE, "max_bytes": 0}),
            "invalid_argument",
            "max_bytes",
        ),
        ("stop_attempt", json!({"attempt_id": NONE, "force": 1}), "invalid_argument", "force"),
        ("create_project", json!({"name": "n", "repos": []}), "invalid_argument", "repos"),
        (
            "create_project",
            json!({"name": "n", "repos": [{"path": "relative"}]}),
            "invalid_argument",
            "absolute",
        ),
    ]
}

/// Well-formed calls about what is not there.
fn mistaken(board: &Board<'_>, task: &str) -> Vec<Case> {
    let project = &board.project_id;
    vec![
        ("list_tasks", json!({"project_id": NONE}), "project_not_found", "list_projects"),
        ("list_repos", json!({"project_id": NONE}), "project_not_found", "list_projects"),
        (
            "create_task",
            json!({"project_id": NONE, "title": "t"}),
            "project_not_found",
            "list_projects",
        ),
        (
            "create_task",
            json!({"project_id": project, "title": "t", "depends_on": [NONE]}),
            "task_not_found",
            "list_tasks",
        ),
        (
            "add_repo",
            json!({"project_id": NONE, "path": board.repo().path}),
            "project_not_found",
            "list_projects",
        ),
        ("get_task", json!({"task_id": NONE}), "task_not_found", "list_tasks"),
        ("update_task", json!({"task_id": NONE, "title": "t"}), "task_not_found", "list_tasks"),
        ("delete_task", json!({"task_id": NONE}), "task_not_found", "list_tasks"),
        ("list_task_attempts", json!({"task_id": NONE}), "task_not_found", "list_tasks"),
        (
            "list_task_attempts",
            json!({"task_id": task, "cursor": "x"}),
            "invalid_argument",
            "cursor",
        ),
        (
            "start_task_attempt",
            json!({"task_id": NONE, "executor": "fake"}),
            "task_not_found",
            "list_tasks",
        ),
        (
            "start_task_attempt",
            json!({"task_id": task, "executor": "nobody"}),
            "executor_not_found",
            "list_executors",
        ),
        (
            "start_task_attempt",
            json!({"task_id": task, "executor": "fake", "variant": "fast"}),
            "variant_not_found",
            "variant",
        ),
        (
            "start_task_attempt",
            json!({"task_id": task, "executor": "fake", "repos": [{"repo_id": NONE}]}),
            "repo_not_found",
            "list_repos",
        ),
        (
            "start_task_attempt",
            json!({"task_id": task, "executor": "fake", "repos": [{"repo_id": board.repo_ids[0], "target_branch": "b"}]}),
            "branch_not_found",
            "target_branch",
        ),
        (
            "start_task_attempt",
            json!({"task_id": task, "executor": "fake", "repos": [{"repo_id": board.repo_ids[0]}, {"repo_id": board.repo_ids[0]}]}),
            "invalid_argument",
            "repo_id",
        ),
        (
            "get_attempt_status",
            json!({"attempt_id": NONE}),
            "attempt_not_found",
            "list_task_attempts",
        ),
        (
            "get_attempt_status",
            json!({"attempt_ids": [NONE]}),
            "attempt_not_found",
            "list_task_attempts",
        ),
        (
            "tail_attempt_logs",
            json!({"attempt_id": NONE}),
            "attempt_not_found",
            "list_task_attempts",
        ),
        ("stop_attempt", json!({"attempt_id": NONE}), "attempt_not_found", "list_task_attempts"),
        ("get_context", json!({}), "not_permitted", "role"),
    ]
}

fn check(provost: &Provost, (tool, arguments, code, hint): Case) {
    let refusal = provost.refusal(tool, &arguments);
    let told = format!("{tool} {arguments}: {refusal}");
    assert_eq!(refusal["code"], code, "{told}");
    assert!(refusal["hint"].as_str().unwrap().contains(hint), "{told}");
    assert_eq!(refusal["error"], refusal["message"], "{told}");
    assert_eq!(refusal["retryable"], false, "{told}");
    assert_eq!(refusal.as_object().unwrap().keys().next().unwrap(), "error");
    let is_of_form = ["missing_required", "unknown_field"].contains(&code);
    assert!(!is_of_form || refusal["details"]["path"].is_string(), "{told}");
}

#[test]
fn every_malformed_call_is_refused_with_the_field_at_fault() {
    let provost = Provost::running();
    malformed().into_iter().for_each(|case| check(&provost, case));
}

#[test]
fn every_mistaken_call_is_refused_with_the_way_out() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("x");
    mistaken(&board, &task).into_iter().for_each(|case| check(&provost, case));
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "nothing was done");
    assert_eq!(listed["tasks"][0]["latest_attempt_id"], Value::Null);
}

#[test]
fn a_hint_followed_word_for_word_works() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("x");
    let mut start = json!({"task_id": task, "executor": "nobody", "variant": "fast",
        "prompt": "hang", "targetBranch": "b"});
    let refuse = |start: &Value| provost.refusal("start_task_attempt", start);

    let unknown = refuse(&start)["details"]["path"].as_str().unwrap().to_owned();
    start.as_object_mut().unwrap().remove(&unknown);
    start["executor"] = refuse(&start)["details"]["executors"][0].clone();
    let variant = refuse(&start)["details"]["path"].as_str().unwrap().to_owned();
    start.as_object_mut().unwrap().remove(&variant);
    provost.call("start_task_attempt", &start);

    let delete = json!({"task_id": task});
    let running = provost.refusal("delete_task", &delete);
    assert_eq!(running["retryable"], true);
    assert!(running["hint"].as_str().unwrap().contains("stop_attempt"));
    provost.call("stop_attempt", &json!({"attempt_id": running["details"]["attempt_id"]}));
    provost.call("delete_task", &delete);
}

#[test]
fn keys_that_a_client_adds_by_itself_are_ignored() {
    let provost = Provost::running();
    provost.call("list_projects", &json!({"wait_for_previous": true, "cursor": null}));
}

//! What is refused, under which code, and that the hint leads on.

use serde_json::{Value, json};

use crate::harness::Provost;

/// An id that was never issued.
const NONE: &str = "01900000-0000-7000-8000-000000000000";

/// A line a call: tool, arguments, and the code and hint that it must come to.
/// Faults of form, for which the field at fault is named.
const MALFORMED: &str = r#"
create_task {} -> missing_required: project_id
create_task {"project_id": "$none"} -> missing_required: title
create_task {"project_id": null, "title": "t"} -> missing_required: project_id
create_task {"projectId": "$none", "title": "t"} -> unknown_field: project_id
create_task {"project_id": "$none", "title": "t", "tag": 1} -> unknown_field: tag
create_task {"project_id": "app", "title": "t"} -> invalid_argument: project_id
create_task {"project_id": 7, "title": "t"} -> invalid_argument: project_id
create_task {"project_id": "$none", "title": ""} -> invalid_argument: title
create_task {"project_id": "$none", "title": "$long"} -> invalid_argument: title
create_task {"project_id": "$none", "title": "t", "priority": "urgent"} -> invalid_argument: priority
create_task {"project_id": "$none", "title": "t", "priority": "hihg"} -> invalid_argument: "high"
create_task {"project_id": "$none", "title": "t", "depends_on": "x"} -> invalid_argument: depends_on
create_task {"project_id": "$none", "title": "t", "request_id": ""} -> invalid_argument: request_id
create_task {"project_id": "$none", "title": "t", "request_id": "$long"} -> invalid_argument: request_id
list_tasks {} -> missing_required: project_id
list_tasks {"project_id": "$none", "status": "open"} -> invalid_argument: status
list_tasks {"project_id": "$none", "limit": 0} -> invalid_argument: limit
list_tasks {"project_id": "$none", "limit": -1} -> invalid_argument: limit
list_tasks {"project_id": "$none", "limit": "5"} -> invalid_argument: limit = 5
list_tasks {"project_id": "$none", "limit": 1.5} -> invalid_argument: limit
list_tasks {"project_id": "$none", "updated_since": "yesterday"} -> invalid_argument: updated_since
list_projects {"limit": true} -> invalid_argument: limit
list_projects {"cursor": "garbled"} -> invalid_argument: cursor
list_executors {"verbose": true} -> unknown_field: list_executors
update_task {"task_id": "$none"} -> missing_required: title
update_task {"task_id": "$none", "status": "finished"} -> invalid_argument: status
start_task_attempt {"task_id": "$none"} -> missing_required: executor
start_task_attempt {"task_id": "$none", "executor": "fake", "repos": []} -> invalid_argument: repos
start_task_attempt {"task_id": "$none", "executor": "fake", "repos": [{}]} -> missing_required: repos[0].repo_id
start_task_attempt {"task_id": "$none", "executor": "fake", "repos": [{"repo_id": "$none", "branch": "b"}]} -> unknown_field: repos[0]
start_task_attempt {"task_id": "$none", "executor": "fake", "ignore_dependencies": "true"} -> invalid_argument: ignore_dependencies = true
get_attempt_status {} -> ambiguous_target: attempt_id
get_attempt_status {"attempt_id": "$none", "attempt_ids": ["$none"]} -> ambiguous_target: attempt_ids
get_attempt_status {"attempt_ids": []} -> invalid_argument: attempt_ids
tail_attempt_logs {"attempt_id": "$none", "cursor": 1, "after_entry_index": 1} -> mixed_pagination: after_entry_index
tail_attempt_logs {"attempt_id": "$none", "channel": "cooked"} -> invalid_argument: channel
tail_attempt_logs {"attempt_id": "$none", "cursor": -1} -> invalid_argument: cursor
tail_attempt_logs {"attempt_id": "$none", "after_entry_index": -2} -> invalid_argument: after_entry_index
tail_attempt_logs {"attempt_id": "$none", "max_bytes": 0} -> invalid_argument: max_bytes
stop_attempt {"attempt_id": "$none", "force": 1} -> invalid_argument: force
create_project {"name": "n", "repos": []} -> invalid_argument: repos
create_project {"name": "n", "repos": [{"path": "relative"}]} -> invalid_argument: absolute
"#;

/// Well-formed calls about what is not there, or not allowed.
const MISTAKEN: &str = r#"
list_tasks {"project_id": "$none"} -> project_not_found: list_projects
list_repos {"project_id": "$none"} -> project_not_found: list_projects
create_task {"project_id": "$none", "title": "t"} -> project_not_found: list_projects
create_task {"project_id": "$project", "title": "t", "depends_on": ["$none"]} -> task_not_found: list_tasks
add_repo {"project_id": "$none", "path": "$path"} -> project_not_found: list_projects
get_task {"task_id": "$none"} -> task_not_found: list_tasks
update_task {"task_id": "$none", "title": "t"} -> task_not_found: list_tasks
delete_task {"task_id": "$none"} -> task_not_found: list_tasks
list_task_attempts {"task_id": "$none"} -> task_not_found: list_tasks
list_task_attempts {"task_id": "$task", "cursor": "x"} -> invalid_argument: cursor
start_task_attempt {"task_id": "$none", "executor": "fake"} -> task_not_found: list_tasks
start_task_attempt {"task_id": "$task", "executor": "nobody"} -> executor_not_found: list_executors
start_task_attempt {"task_id": "$task", "executor": "fake", "variant": "fast"} -> variant_not_found: variant
start_task_attempt {"task_id": "$task", "executor": "fake", "repos": [{"repo_id": "$none"}]} -> repo_not_found: list_repos
start_task_attempt {"task_id": "$task", "executor": "fake", "repos": [{"repo_id": "$repo", "target_branch": "b"}]} -> branch_not_found: target_branch
start_task_attempt {"task_id": "$task", "executor": "fake", "repos": [{"repo_id": "$repo"}, {"repo_id": "$repo"}]} -> invalid_argument: repos[1]
get_attempt_status {"attempt_id": "$none"} -> attempt_not_found: list_task_attempts
get_attempt_status {"attempt_ids": ["$none"]} -> attempt_not_found: list_task_attempts
tail_attempt_logs {"attempt_id": "$none"} -> attempt_not_found: list_task_attempts
stop_attempt {"attempt_id": "$none"} -> attempt_not_found: list_task_attempts
get_context {} -> not_permitted: list_projects
"#;

/// Makes the calls of a table; `names` stand for what differs from run to run.
fn check(provost: &Provost, table: &str, names: &[(&str, &str)]) {
    for line in table.trim().lines() {
        let (call, expected) = line.split_once(" -> ").unwrap();
        let (tool, arguments) = call.split_once(' ').unwrap();
        let (code, hint) = expected.split_once(": ").unwrap();
        let arguments = names.iter().fold(arguments.to_owned(), |arguments, (name, value)| {
            arguments.replace(&format!("${name}"), value)
        });
        let refusal = provost.refusal(tool, &serde_json::from_str(&arguments).unwrap());
        assert_eq!(refusal["code"], code, "{line}: {refusal}");
        assert!(refusal["hint"].as_str().unwrap().contains(hint), "{line}: {refusal}");
        assert_eq!(refusal["error"], refusal["message"], "{line}: {refusal}");
        assert_eq!(refusal["retryable"], false, "{line}: {refusal}");
        assert_eq!(refusal.as_object().unwrap().keys().next().unwrap(), "error");
        let is_of_form = ["missing_required", "unknown_field"].contains(&code);
        assert!(!is_of_form || refusal["details"]["path"].is_string(), "{line}: {refusal}");
    }
}

#[test]
fn every_malformed_call_is_refused_with_the_field_at_fault() {
    let provost = Provost::running();
    check(&provost, MALFORMED, &[("none", NONE), ("long", &"x".repeat(1001))]);
    let many = json!({"attempt_ids": vec![NONE; 51]});
    assert_eq!(provost.refusal("get_attempt_status", &many)["code"], "invalid_argument");
}

#[test]
fn every_mistaken_call_is_refused_with_the_way_out() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("x");
    let names = [
        ("none", NONE),
        ("project", &board.project_id),
        ("task", &task),
        ("repo", &board.repo_ids[0]),
        ("path", board.repo().path.to_str().unwrap()),
    ];
    check(&provost, MISTAKEN, &names);
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "nothing was done");
    assert_eq!(listed["tasks"][0]["latest_attempt_id"], Value::Null);
}

#[test]
fn a_text_that_is_too_long_is_not_dropped_by_the_hint() {
    let provost = Provost::running();
    let task = provost.board().task("t");
    let long = "x".repeat(1_000_001);
    let start = json!({"task_id": task, "executor": "fake", "prompt": long});
    let hint = provost.refusal("start_task_attempt", &start)["hint"].clone();
    let expected =
        "Call start_task_attempt again with prompt, a string of 1 to 1000000 characters.";
    assert_eq!(hint, expected);
}

#[test]
fn keys_that_a_client_adds_by_itself_are_ignored() {
    let provost = Provost::running();
    provost.call("list_projects", &json!({"wait_for_previous": true, "cursor": null}));
}

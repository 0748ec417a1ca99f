//! Every tool, once around, over the bridge, as a client would.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Client, Provost, eventually};

/// What has been called.
struct Tour {
    client: Client,
    called: BTreeSet<String>,
}

impl Tour {
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.called.insert(tool.to_owned());
        self.client.call(tool, arguments).output()
    }
}

#[test]
fn every_tool_of_the_orchestrator_works_over_the_bridge() {
    let provost = Provost::running();
    let (repo, second) = (provost.repo("app"), provost.repo("lib"));
    let mut tour = Tour { client: provost.bridge(), called: BTreeSet::new() };
    tour.client.initialize();

    let made = tour.call("create_project", &json!({"name": "p", "repos": [{"path": repo.path}]}));
    let project = made["project_id"].clone();
    tour.call("add_repo", &json!({"project_id": project, "path": second.path}));
    assert_eq!(tour.call("list_projects", &json!({}))["projects"][0]["name"], "p");
    let repos = tour.call("list_repos", &json!({"project_id": project}));
    let names: Vec<&Value> =
        repos["repos"].as_array().unwrap().iter().map(|repo| &repo["repo_name"]).collect();
    assert_eq!(names, ["app", "lib"]);
    let executors = tour.call("list_executors", &json!({}));
    let executor = executors["executors"].as_array().unwrap().last().unwrap()["executor"].clone();
    assert_eq!(executor, "fake");

    let task = tour.call("create_task", &json!({"project_id": project, "title": "t"}));
    let task = task["task_id"].clone();
    let changed = tour.call("update_task", &json!({"task_id": task, "priority": "high"}));
    assert_eq!(changed["task"]["priority"], "high");
    let start = json!({"task_id": task, "executor": executor, "prompt": "write app/a.txt text\nsay hello\nhang"});
    let started = tour.call("start_task_attempt", &start);
    let attempt = started["attempt_id"].clone();
    let target = json!({"attempt_id": attempt});
    eventually("it says hello", || {
        let page = tour.call("tail_attempt_logs", &target);
        let entries = page["entries"].as_array().unwrap().clone();
        entries.into_iter().find(|entry| entry["text"] == "hello")
    });
    assert_eq!(tour.call("get_attempt_status", &target)["state"], "running");
    let wait = json!({"attempt_ids": [attempt], "timeout_ms": 1});
    assert_eq!(tour.call("wait_for_attempts", &wait)["timed_out"], true);
    let answer = tour.call("tail_session_messages", &target);
    assert_eq!(answer["messages"][0]["text"], start["prompt"]);
    let many = tour.call("get_attempt_status", &json!({"attempt_ids": [attempt]}));
    assert_eq!(many["attempts"][0]["attempt_id"], attempt);
    let listed = tour.call("list_tasks", &json!({"project_id": project}));
    let summary = &listed["tasks"][0];
    assert_eq!(
        (&summary["status"], &summary["latest_attempt_id"]),
        (&json!("inprogress"), &attempt)
    );
    assert_eq!(summary["has_in_progress_attempt"], true);
    let queue = json!({"attempt_id": attempt, "action": "queue", "prompt": "say more"});
    assert_eq!(tour.call("follow_up", &queue)["queue"]["length"], 1);
    assert_eq!(tour.call("get_attempt_changes", &target)["summary"]["file_count"], 1);
    let paths = json!({"attempt_id": attempt, "paths": ["app/a.txt"]});
    assert_eq!(tour.call("get_attempt_patch", &paths)["files"][0]["status"], "added");
    let path = json!({"attempt_id": attempt, "path": "app/a.txt"});
    assert_eq!(tour.call("get_attempt_file", &path)["content"], "text\n");
    assert_eq!(tour.call("stop_attempt", &target)["stopped"], true);
    eventually("its turn has a snapshot", || {
        let status = tour.call("get_attempt_status", &target);
        Some(()).filter(|()| status["latest_snapshot_turn"] == 1)
    });
    let comment = json!({"attempt_id": attempt, "action": "add", "path": "app/a.txt", "line": 1,
        "text": "why?"});
    let commented = tour.call("comment_on_changes", &comment);
    assert_eq!(commented["comments"][0]["quoted"], "text");
    let commit = json!({"attempt_id": attempt, "action": "commit"});
    assert_eq!(tour.call("finish_attempt", &commit)["state"], "done");
    let attempts = tour.call("list_task_attempts", &json!({"task_id": task}));
    assert_eq!((&attempts["latest_attempt_id"], &attempts["has_more"]), (&attempt, &json!(false)));
    assert_eq!(
        tour.call("get_task", &json!({"task_id": task}))["task"]["last_attempt_failed"],
        true
    );
    let inbox = tour.call("list_inbox", &json!({}));
    assert_eq!((&inbox["approvals"], &inbox["questions"]), (&json!([]), &json!([])));
    let unasked = json!({"approval_id": attempt, "decision": "approve"});
    let refusal = tour.client.call("answer", &unasked).refusal();
    assert_eq!(refusal["code"], "invalid_argument");
    let unasked = json!({"question_id": "Q-001", "answer": "yes"});
    let refusal = tour.client.call("answer", &unasked).refusal();
    assert_eq!(refusal["code"], "question_not_found");
    tour.called.insert("answer".to_owned());
    let deleted = tour.call("delete_task", &json!({"task_id": task}));
    assert_eq!(deleted["deleted_task_id"], task);
    assert_eq!(tour.call("get_attempt_status", &target)["state"], "failed", "it stays readable");

    let listed = tour.client.ask("tools/list", &json!({}));
    let offered: BTreeSet<String> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    let missed: Vec<&String> = offered.difference(&tour.called).collect();
    assert!(missed.is_empty(), "tools that this test does not call: {missed:?}");
}

#[test]
fn the_pages_of_a_list_hold_each_item_once() {
    let provost = Provost::running();
    let board = provost.board();
    let tasks: BTreeSet<String> = (0..7).map(|n| board.task(&format!("task {n}"))).collect();
    let mut arguments = json!({"project_id": board.project_id, "limit": 3});
    let mut seen = Vec::new();
    loop {
        let page = provost.call("list_tasks", &arguments);
        let ids = page["tasks"].as_array().unwrap().iter();
        seen.extend(ids.map(|task| task["task_id"].as_str().unwrap().to_owned()));
        if page["has_more"] == false {
            break;
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
    assert_eq!((seen.len(), seen.into_iter().collect::<BTreeSet<_>>()), (7, tasks));
}

#[test]
fn a_task_waits_for_those_it_depends_on() {
    let provost = Provost::running();
    let board = provost.board();
    let first = board.task("first");
    let second = board.task_with("second", &json!({"depends_on": [first]}));
    let start = json!({"task_id": second, "executor": "fake", "prompt": "say go"});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert_eq!(refusal["details"]["unmet"], json!([first]));
    let cycle = json!({"task_id": first, "depends_on": [second]});
    assert_eq!(provost.refusal("update_task", &cycle)["code"], "dependency_cycle");
    provost.call("update_task", &json!({"task_id": first, "status": "done"}));
    provost.call("start_task_attempt", &start);
}

#[test]
fn a_task_with_a_running_attempt_can_not_be_deleted() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("x");
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "hang"}));
    let delete = json!({"task_id": task, "request_id": "delete"});
    assert_eq!(provost.refusal("delete_task", &delete)["code"], "attempt_running");
    attempt.stop();
    // A refused call has not used up its id.
    assert_eq!(provost.call("delete_task", &delete)["deleted_task_id"], task);
    assert_eq!(provost.refusal("get_task", &json!({"task_id": task}))["code"], "task_not_found");
}

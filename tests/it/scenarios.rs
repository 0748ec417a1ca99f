//! Scenarios of the specifications of the orchestrator's tools, each by its own
//! name and in their order, but for those that stand with their tool.
//! `tests/SCENARIOS.md` says which test is whose.

use serde_json::{Value, json};

use crate::harness::{Attempt, Client, Provost};

/// The definitions of the orchestrator's tools.
fn tools(provost: &Provost) -> Vec<Value> {
    let mut client = provost.bridge();
    client.initialize();
    let Value::Array(tools) = client.ask("tools/list", &json!({}))["result"]["tools"].take() else {
        panic!("no tools are listed")
    };
    tools
}

fn tool(provost: &Provost, name: &str) -> Value {
    tools(provost).into_iter().find(|tool| tool["name"] == name).unwrap()
}

fn finished<'p>(provost: &'p Provost, prompt: &str) -> Attempt<'p> {
    let attempt = provost.board().start("fake", prompt);
    attempt.settled();
    attempt
}

/// All property names and descriptions of a schema, at every depth.
fn properties(schema: &Value, found: &mut Vec<(String, Value)>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(fields)) = members.get("properties") {
                found.extend(
                    fields.iter().map(|(name, is)| (name.clone(), is["description"].clone())),
                );
            }
            members.values().for_each(|member| properties(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
        _ => {}
    }
}

// ---- agent-guided MCP tools

#[test]
fn tool_description_contains_guidance_headings() {
    let provost = Provost::running();
    let follow_up = tool(&provost, "follow_up");
    let description = follow_up["description"].as_str().unwrap();
    for heading in ["Use when:", "Required:", "Next:", "Avoid:"] {
        assert!(description.contains(heading), "{heading}");
    }
}

#[test]
fn follow_up_send_requires_prompt_by_schema() {
    let provost = Provost::running();
    let follow_up = tool(&provost, "follow_up");
    let validator = jsonschema::draft202012::new(&follow_up["inputSchema"]).unwrap();
    let mut send = json!({"action": "send", "attempt_id": "01920000-0000-7000-8000-000000000000"});
    assert!(!validator.is_valid(&send));
    send["prompt"] = json!("go on");
    assert!(validator.is_valid(&send));
}

#[test]
fn reject_dual_targeting() {
    let provost = Provost::running();
    let attempt = finished(&provost, "say x");
    let both = json!({
        "action": "send", "prompt": "x",
        "attempt_id": attempt.id, "session_id": attempt.started["session_id"],
    });
    let refusal = provost.refusal("follow_up", &both);
    assert_eq!(refusal["code"], "ambiguous_target");
    assert!(refusal["hint"].as_str().unwrap().contains("exactly one"), "{refusal}");
}

#[test]
fn reject_mixed_pagination_modes() {
    let provost = Provost::running();
    let attempt = finished(&provost, "say x");
    let mixed = json!({"attempt_id": attempt.id, "cursor": 3, "after_entry_index": 1});
    let refusal = provost.refusal("tail_attempt_logs", &mixed);
    assert_eq!(refusal["code"], "mixed_pagination");
    let hint = refusal["hint"].as_str().unwrap();
    assert!(hint.contains("cursor") && hint.contains("after_entry_index"), "{hint}");
}

#[test]
fn executor_identifiers_are_usable() {
    let provost = Provost::new()
        .executor("agent", "plain", "cat")
        .config("[executors.agent.variants.loud]\nargs = []")
        .started();
    let board = provost.board();
    let listed = provost.call("list_executors", &json!({}));
    let is_there = |executor: &&Value| executor["available"] == true;
    for executor in listed["executors"].as_array().unwrap().iter().filter(is_there) {
        let variants = executor["variants"].as_array().unwrap();
        for variant in variants.iter().chain([&Value::Null]) {
            let start = json!({"prompt": "say x", "variant": variant});
            let attempt = board.start_with(executor["executor"].as_str().unwrap(), &start);
            assert_eq!(attempt.settled()["state"], "completed");
        }
    }
}

#[test]
fn stop_a_running_attempt() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    assert_eq!(attempt.status()["state"], "running");
    attempt.stop();
    assert_eq!(attempt.status()["state"], "failed");
}

#[test]
fn create_task_retry_returns_same_task_id() {
    let provost = Provost::running();
    let board = provost.board();
    let create = json!({"project_id": board.project_id, "title": "t", "request_id": "r"});
    let first = provost.call("create_task", &create);
    assert_eq!(provost.call("create_task", &create)["task_id"], first["task_id"]);
}

#[test]
fn start_task_attempt_retry_returns_same_attempt_id() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("t");
    let start = json!({"task_id": task, "executor": "fake", "prompt": "say x", "request_id": "r"});
    let first = provost.call("start_task_attempt", &start);
    assert_eq!(provost.call("start_task_attempt", &start)["attempt_id"], first["attempt_id"]);
}

#[test]
fn request_id_reuse_with_different_payload_is_rejected() {
    let provost = Provost::running();
    let board = provost.board();
    let create = |title| json!({"project_id": board.project_id, "title": title, "request_id": "r"});
    provost.call("create_task", &create("one"));
    let refusal = provost.refusal("create_task", &create("another"));
    assert_eq!(refusal["code"], "idempotency_conflict");
    assert!(refusal["hint"].as_str().unwrap().contains("new request_id"), "{refusal}");
}

// ---- attempt observability tools

#[test]
fn tools_are_discoverable() {
    let provost = Provost::running();
    let names: Vec<Value> = tools(&provost).iter().map(|tool| tool["name"].clone()).collect();
    for name in [
        "list_projects",
        "list_repos",
        "list_tasks",
        "list_task_attempts",
        "get_task",
        "create_task",
        "update_task",
        "delete_task",
        "start_task_attempt",
        "follow_up",
        "get_attempt_status",
        "tail_attempt_logs",
        "get_attempt_changes",
        "list_executors",
        "stop_attempt",
        "tail_session_messages",
        "get_attempt_file",
        "get_attempt_patch",
    ] {
        assert!(names.iter().any(|listed| listed == name), "{name}");
    }
    // Only where there is a context.
    assert!(!names.iter().any(|listed| listed == "get_context"));
}

#[test]
fn attempt_is_running() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let status = attempt.status();
    assert_eq!(status["state"], "running");
    assert!(status["latest_execution_process_id"].is_string());
    attempt.stop();
}

#[test]
fn attempt_is_failed() {
    let provost = Provost::running();
    let board = provost.board();
    let failed = board.start("fake", "exit 3");
    let killed = board.start("fake", "say up\nhang");
    killed.has_said("up");
    killed.stop_by_force();
    for attempt in [failed, killed] {
        let status = attempt.settled();
        assert_eq!(status["state"], "failed");
        assert!(!status["failure_summary"].as_str().unwrap().is_empty());
    }
}

#[test]
fn default_tail_load() {
    let provost = Provost::running();
    let attempt = finished(&provost, "lines 80");
    let page = attempt.page("normalized", &json!({}));
    let entries = page["entries"].as_array().unwrap();
    let indexes: Vec<u64> =
        entries.iter().map(|entry| entry["entry_index"].as_u64().unwrap()).collect();
    assert_eq!(indexes.len(), 50);
    assert!(indexes.is_sorted());
    assert_eq!(page["latest_entry_index"], *indexes.last().unwrap());
    assert_eq!(page["has_more"], true);
}

#[test]
fn load_older_history() {
    let provost = Provost::running();
    let attempt = finished(&provost, "lines 80");
    let newest = attempt.page("normalized", &json!({}));
    let older = attempt.page("normalized", &json!({"cursor": newest["next_cursor"]}));
    let entries = older["entries"].as_array().unwrap();
    let last = entries.last().unwrap()["entry_index"].as_u64().unwrap();
    assert_eq!(newest["entries"][0]["entry_index"], last + 1);
    assert_eq!((&older["has_more"], &older["next_cursor"]), (&json!(false), &Value::Null));
}

#[test]
fn no_process_yields_empty_history() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let running = board.start("fake", "say up\nhang");
    running.has_said("up");
    let queued = board.start("fake", "say x");
    let page = queued.page("normalized", &json!({}));
    assert_eq!((&page["entries"], &page["has_more"]), (&json!([]), &json!(false)));
    queued.stop();
    running.stop();
}

// ---- MCP task tools

#[test]
fn attempt_id_is_usable_for_follow_up() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("t");
    board.start_at(&task, "fake", &json!({"prompt": "say first"})).settled();
    let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
    let id = &listed["attempts"][0]["attempt_id"];
    let send = json!({"attempt_id": id, "action": "send", "prompt": "say second"});
    assert_eq!(&provost.call("follow_up", &send)["attempt_id"], id);
}

#[test]
fn no_workspace_id_alias_in_mcp_schemas() {
    let provost = Provost::running();
    for tool in tools(&provost) {
        assert!(!tool.to_string().contains("workspace_id"), "{}", tool["name"]);
    }
}

#[test]
fn task_list_includes_latest_attempt_info() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("t");
    board.start_at(&task, "fake", &json!({"prompt": "say x"})).settled();
    let latest = board.start_at(&task, "fake", &json!({"prompt": "exit 1"}));
    latest.settled();
    let listed = provost.call("list_tasks", &json!({"project_id": board.project_id}));
    let listed = &listed["tasks"][0];
    assert_eq!(listed["latest_attempt_id"], latest.started["attempt_id"]);
    assert_eq!(listed["latest_session_id"], latest.started["session_id"]);
    assert_eq!(listed["latest_workspace_branch"], latest.started["workspace_branch"]);
    assert_eq!(listed["latest_session_executor"], "fake");
    assert_eq!(listed["has_in_progress_attempt"], false);
    assert_eq!(listed["last_attempt_failed"], true);
}

#[test]
fn attempts_returned_with_session_summary() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("t");
    let attempts: Vec<Attempt> =
        (0..3).map(|_| board.start_at(&task, "fake", &json!({"prompt": "say x"}))).collect();
    let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
    let rows = listed["attempts"].as_array().unwrap();
    let newest_first: Vec<&Value> =
        attempts.iter().rev().map(|attempt| &attempt.started["attempt_id"]).collect();
    assert_eq!(rows.iter().map(|row| &row["attempt_id"]).collect::<Vec<_>>(), newest_first);
    assert!(rows.iter().all(|row| row["latest_session_executor"] == "fake"));
    assert_eq!(&listed["latest_attempt_id"], newest_first[0]);
    assert_eq!(listed["latest_session_id"], attempts[2].started["session_id"]);
}

#[test]
fn follow_up_by_attempt_id() {
    let provost = Provost::running();
    let attempt = finished(&provost, "say first");
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say second"});
    let answer = provost.call("follow_up", &send);
    assert_eq!(answer["session_id"], attempt.started["session_id"]);
    attempt.until("it has said more", |status| status["final_message"] == "second");
}

#[test]
fn field_docs_are_present() {
    let provost = Provost::running();
    let list = tool(&provost, "list_task_attempts");
    let mut found = Vec::new();
    properties(&list["inputSchema"], &mut found);
    properties(&list["outputSchema"], &mut found);
    assert!(found.len() > 10);
    for (name, description) in found {
        assert!(description.as_str().is_some_and(|text| !text.is_empty()), "{name}");
    }
}

#[test]
fn context_returns_unified_attempt_data() {
    let provost = Provost::running();
    let attempt = finished(&provost, "say x");
    let mut inside = provost.command(&["mcp"]);
    inside.env("PROVOST_ATTEMPT_ID", &attempt.id);
    let mut client = Client::over_bridge(inside);
    client.initialize();
    let context = client.call("get_context", &json!({})).output();
    assert_eq!(context["attempt_id"], attempt.id);
    assert_eq!(context["workspace_branch"], attempt.started["workspace_branch"]);
    assert_eq!(context["task_id"], attempt.started["task_id"]);
    for field in ["project_id", "project_name", "task_title", "task_status"] {
        assert!(context[field].is_string(), "{field}");
    }
    let repo = &context["workspace_repos"][0];
    assert_eq!((&repo["repo_name"], &repo["target_branch"]), (&json!("app"), &json!("main")));
}

#[test]
fn send_follow_up_by_session_id() {
    let provost = Provost::running();
    let attempt = finished(&provost, "say first");
    let session = &attempt.started["session_id"];
    let send = json!({"session_id": session, "action": "send", "prompt": "say second"});
    assert_eq!(provost.call("follow_up", &send)["attempt_id"], attempt.id);
    attempt.until("it has said more", |status| status["final_message"] == "second");
}

#[test]
fn queue_follow_up_by_attempt_id_and_by_session_id() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let by_attempt = json!({"attempt_id": attempt.id, "action": "queue", "prompt": "say one"});
    assert_eq!(provost.call("follow_up", &by_attempt)["queue"]["status"], "queued");
    let session = &attempt.started["session_id"];
    let by_session = json!({"session_id": session, "action": "queue", "prompt": "say two"});
    assert_eq!(provost.call("follow_up", &by_session)["queue"]["length"], 2);
    attempt.stop();
}

#[test]
fn cancel_queued_follow_up() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "say up\nhang");
    attempt.has_said("up");
    let queue = json!({"attempt_id": attempt.id, "action": "queue", "prompt": "say one"});
    provost.call("follow_up", &queue);
    let cancel = json!({"attempt_id": attempt.id, "action": "cancel"});
    let queue = &provost.call("follow_up", &cancel)["queue"];
    assert_eq!((&queue["status"], &queue["length"]), (&json!("empty"), &json!(0)));
    attempt.stop();
}

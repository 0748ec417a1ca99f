//! What the worker API says when it says no: the specification's tables of errors, of rate
//! limits and of permissions, a test a row, over standard input and output.

use std::fs::File;

use serde_json::{Value, json};

use crate::harness::{Client, Provost, eventually};

fn ticket() -> Value {
    json!({"title": "Test"})
}

/// A worker in the repository of a board with a task.
fn at_work(provost: &Provost) -> Client {
    let board = provost.board();
    board.task("a task");
    provost.worker(&board.repo().path)
}

fn error(answer: &Value) -> &Value {
    assert!(answer.get("result").is_none(), "not refused: {answer}");
    &answer["error"]
}

/// The database's file is lost under the daemon.
fn lose_database(provost: &Provost) {
    for end in ["", "-wal"] {
        let path = provost.home().join(format!("provost.db{end}"));
        File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    }
}

/// The members of the schema that all tools share.
fn is_of_the_schema(envelope: &Value) {
    assert_eq!(envelope["success"], false, "{envelope}");
    let error = envelope["error"].as_object().unwrap();
    for member in [
        "code",
        "message",
        "details",
        "severity",
        "retryable",
        "retry_after_seconds",
        "fallback_suggested",
        "priority_impact",
        "log_level",
        "hint",
    ] {
        assert!(error.contains_key(member), "{member}: {envelope}");
    }
    for member in ["task_id", "agent_name", "timestamp"] {
        assert!(envelope["context"].as_object().unwrap().contains_key(member), "{envelope}");
    }
}

#[test]
fn parse_error_32700_for_invalid_json() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    worker.send_bytes(b"{\"jsonrpc\": \"2.0\", \"method\": \"createTicket\", ");
    let answer = worker.next().unwrap();
    assert_eq!(answer["error"]["code"], -32700);
    assert_eq!(answer["id"], Value::Null);
}

#[test]
fn invalid_request_32600_for_a_message_without_its_fields() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    worker.send(&json!({"jsonrpc": "2.0", "id": 1}));
    assert_eq!(worker.next().unwrap()["error"]["code"], -32600);
}

#[test]
fn method_not_found_32601_for_an_unknown_tool() {
    let provost = Provost::running();
    let answer = at_work(&provost).ask("clearQueue", &json!({}));
    assert_eq!(error(&answer)["code"], -32601);
}

#[test]
fn invalid_params_32602_for_a_field_that_is_missing_or_unknown() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    for params in [json!({}), json!({"title": "Test", "colour": "red"})] {
        let answer = worker.ask("createTicket", &params);
        assert_eq!(error(&answer)["code"], -32602, "{answer}");
        assert_eq!(answer["error"]["data"]["error"]["code"], "INVALID_PARAM");
    }
    let answer = worker.ask("createTicket", &json!(["Test"]));
    assert_eq!(error(&answer)["code"], -32602, "{answer}");
}

#[test]
fn bad_request_400_for_a_value_that_is_none_of_those_allowed() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let answer = worker.ask("createTicket", &json!({"title": "Test", "priority": "enormous"}));
    assert_eq!(error(&answer)["code"], 400, "{answer}");
    assert_eq!(answer["error"]["data"]["error"]["details"]["field"], "priority");
}

#[test]
fn not_found_404_tells_the_task_and_a_suggestion() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let about = json!({"title": "Test", "task_id": "TASK-999"});
    let answer = worker.ask("createTicket", &about);
    assert_eq!(error(&answer)["code"], 404, "{answer}");
    let data = &answer["error"]["data"];
    assert_eq!(data["taskId"], "TASK-999");
    assert!(data["suggestion"].is_string());
    is_of_the_schema(data);
    worker.initialize();
    let refusal = worker.call("createTicket", &about).refusal();
    is_of_the_schema(&refusal);
    assert_eq!(refusal["error"]["code"], "RESOURCE_NOT_FOUND");
    assert_eq!(refusal["error"]["retryable"], false);
    assert_eq!(refusal["context"]["task_id"], "TASK-999");
}

#[test]
fn create_ticket_db_locked_by_a_short_lock_is_tried_again_and_succeeds() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let locked = provost.lock_database();
    let id = worker.request("createTicket", &ticket());
    eventually("a try failed and was logged, or it waits", || {
        (locked.held_for_millis() > 1500).then_some(())
    });
    drop(locked);
    let answer = worker.answer(id).unwrap();
    assert_eq!(answer["result"]["ticket"]["id"], "TK-001", "{answer}");
}

#[test]
fn create_ticket_db_locked_for_long_is_retryable_and_made_nothing() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    let locked = provost.lock_database();
    let answer = worker.ask("createTicket", &ticket());
    assert_eq!(error(&answer)["code"], 503, "{answer}");
    let error = &answer["error"]["data"]["error"];
    assert_eq!(error["code"], "DB_LOCKED");
    assert_eq!(error["retryable"], true);
    assert_eq!(error["retry_after_seconds"], 2);
    drop(locked);
    let answer = worker.ask("createTicket", &ticket());
    assert_eq!(answer["result"]["ticket"]["id"], "TK-001", "{answer}");
}

#[test]
fn server_error_500_for_a_fault_of_the_store() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    provost
        .sql(&["CREATE TRIGGER no BEFORE INSERT ON tickets BEGIN SELECT RAISE(ABORT, 'no'); END"]);
    let answer = worker.ask("createTicket", &ticket());
    assert_eq!(error(&answer)["code"], 500, "{answer}");
    let data = &answer["error"]["data"];
    is_of_the_schema(data);
    assert_eq!(data["error"]["code"], "INTERNAL_ERROR");
    assert_eq!(data["error"]["severity"], "CRITICAL");
    provost.sql(&["DROP TRIGGER no"]);
    let answer = worker.ask("createTicket", &ticket());
    assert_eq!(answer["result"]["ticket"]["id"], "TK-001", "nothing was left: {answer}");
}

#[test]
fn get_next_task_error_500_for_a_fault_of_the_store() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    provost.sql(&["DROP VIEW task_holders"]);
    let answer = worker.ask("getNextTask", &json!({"filter": "ready"}));
    assert_eq!(error(&answer)["code"], 500, "{answer}");
    is_of_the_schema(&answer["error"]["data"]);
}

#[test]
fn get_next_task_error_503_for_a_queue_that_is_unavailable() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    lose_database(&provost);
    let answer = worker.ask("getNextTask", &json!({"filter": "ready"}));
    assert_eq!(error(&answer)["code"], 503, "{answer}");
    assert_eq!(answer["error"]["data"]["error"]["retryable"], true);
}

#[test]
fn ask_question_error_500_for_a_fault_of_the_store() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    provost.sql(&["DROP TABLE questions"]);
    let answer = worker.ask("askQuestion", &json!({"question": "Which colour has the logo?"}));
    assert_eq!(error(&answer)["code"], 500, "{answer}");
}

#[test]
fn report_issue_rate_limit() {
    let provost = Provost::new().config("[worker]\nagent_per_minute = 1").started();
    let mut worker = at_work(&provost);
    let issue = json!({"issue_description": "it smells", "severity": 3});
    assert_eq!(worker.ask("reportIssue", &issue)["result"]["logged"], true);
    let answer = worker.ask("reportIssue", &issue);
    assert_eq!(error(&answer)["data"]["error"]["code"], "RATE_LIMIT", "{answer}");
}

#[test]
fn create_ticket_db_unavailable_is_retryable_with_a_fallback() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    lose_database(&provost);
    let answer = worker.ask("createTicket", &ticket());
    assert_eq!(error(&answer)["code"], 503, "{answer}");
    let data = &answer["error"]["data"];
    is_of_the_schema(data);
    assert_eq!(data["error"]["code"], "RESOURCE_NOT_FOUND");
    assert_eq!(data["error"]["retryable"], true);
    assert_eq!(data["error"]["fallback_suggested"], true);
    assert_eq!(data["fallback_suggested"], true);
}

#[test]
fn create_ticket_invalid_input_names_the_missing_title() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    worker.initialize();
    let refusal = worker.call("createTicket", &json!({})).refusal();
    is_of_the_schema(&refusal);
    assert_eq!(refusal["error"]["code"], "INVALID_PARAM");
    assert_eq!(refusal["error"]["retryable"], false);
    assert_eq!(refusal["error"]["details"]["field"], "title");
    assert_eq!(refusal["error"]["details"]["reason"], "required");
}

#[test]
fn rate_limit_burst_ten_a_second_for_one_agent() {
    let provost = Provost::new()
        .config("[worker]\nagent_per_minute = 0\nall_per_minute = 0\nburst_per_second = 2")
        .started();
    let mut worker = at_work(&provost);
    // Sent at once; the daemon takes them faster than two a second.
    let ids: Vec<u64> = (0..20).map(|_| worker.request("createTicket", &ticket())).collect();
    let answers: Vec<Value> = ids.into_iter().map(|id| worker.answer(id).unwrap()).collect();
    let refused = answers.iter().find(|answer| answer["error"]["code"] == 429);
    let error = &refused.expect("one is refused")["error"]["data"]["error"];
    assert_eq!(error["code"], "RATE_LIMIT");
    assert_eq!(error["retryable"], true);
    assert_eq!(error["retry_after_seconds"], 1);
    assert!(answers.iter().any(|answer| answer["result"]["success"] == true));
}

#[test]
fn rate_limit_per_agent_hundred_a_minute_and_others_go_on() {
    let provost = Provost::new().config("[worker]\nburst_per_second = 0").started();
    let board = provost.board();
    let mut worker = provost.worker(&board.repo().path);
    let refused = (0..150).find_map(|number| {
        let answer = worker.ask("createTicket", &ticket());
        (answer["error"]["code"] == 429).then_some((number, answer))
    });
    let (number, answer) = refused.expect("the limit is met");
    assert!(number >= 100, "{number}");
    let seconds = answer["error"]["data"]["error"]["retry_after_seconds"].as_u64().unwrap();
    assert!((1..=60).contains(&seconds));
    let mut other = provost.worker(&board.repo().path);
    assert_eq!(other.ask("createTicket", &ticket())["result"]["success"], true);
}

#[test]
fn rate_limit_global_for_all_agents() {
    let provost =
        Provost::new().config("[worker]\nburst_per_second = 0\nall_per_minute = 2").started();
    let board = provost.board();
    let codes: Vec<Value> = (0..5)
        .map(|_| provost.worker(&board.repo().path).ask("createTicket", &ticket()))
        .map(|answer| answer["error"]["code"].clone())
        .collect();
    assert!(codes[..2].iter().all(Value::is_null), "{codes:?}");
    assert!(codes[2..].contains(&json!(429)), "{codes:?}");
}

#[test]
fn persons_and_orchestrators_have_no_rate_limit() {
    let provost = Provost::new()
        .config("[worker]\nagent_per_minute = 1\nall_per_minute = 1\nburst_per_second = 1")
        .started();
    let board = provost.board();
    for _ in 0..5 {
        board.task("a task");
        let made = json!({"title": "Test", "project_id": board.project_id});
        provost.call("createTicket", &made);
    }
}

#[test]
fn authorization_write_tools_are_refused_to_a_reader() {
    let provost = Provost::running();
    let board = provost.board();
    let mut reader = provost.worker_with(&board.repo().path, &["--access", "read"]);
    let answer = reader.ask("createTicket", &ticket());
    assert_eq!(error(&answer)["code"], 403, "{answer}");
    assert_eq!(answer["error"]["data"]["error"]["code"], "NOT_PERMITTED");
    reader.initialize();
    let refusal = reader.call("createTicket", &ticket()).refusal();
    is_of_the_schema(&refusal);
    assert_eq!(refusal["error"]["details"]["needed"], "write");
    let listed = reader.ask("tools/list", &json!({}))["result"]["tools"].clone();
    let names: Vec<&Value> = listed.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["getNextTask", "askQuestion", "getImmediateAnswer", "callCOEAgent"]);
}

#[test]
fn authorization_read_tools_are_a_readers() {
    let provost = Provost::running();
    let board = provost.board();
    board.task("a task");
    let mut reader = provost.worker_with(&board.repo().path, &["--access", "read"]);
    let next = reader.ask("getNextTask", &json!({}));
    assert_eq!(next["result"]["task"]["taskId"], "TASK-001", "{next}");
    let answer = reader.ask("askQuestion", &json!({"question": "Which colour has the logo?"}));
    assert_eq!(answer["result"]["success"], true, "{answer}");
}

#[test]
fn authorization_admin_tools_are_refused_to_a_writer() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("a task");
    let mut command = provost.command(&["mcp", "--role", "orchestrator", "--access", "write"]);
    command.current_dir(&board.repo().path);
    let mut writer = Client::over_bridge(command);
    writer.initialize();
    let refusal = writer.call("delete_task", &json!({"task_id": task})).refusal();
    assert_eq!(refusal["code"], "not_permitted");
    writer.call("update_task", &json!({"task_id": task, "title": "another"})).output();
}

#[test]
fn authorization_a_worker_has_no_tools_of_the_orchestrator() {
    let provost = Provost::running();
    let mut worker = at_work(&provost);
    worker.initialize();
    let refusal = worker.call("list_projects", &json!({})).refusal();
    assert_eq!(refusal["code"], "not_permitted");
}

#[test]
fn authorization_a_worker_in_an_attempt_reaches_its_own_project_only() {
    let provost = Provost::running();
    let (board, other) = (provost.board(), provost.repo("other"));
    let made =
        provost.call("create_project", &json!({"name": "other", "repos": [{"path": other.path}]}));
    let foreign = json!({"project_id": made["project_id"], "title": "foreign"});
    let foreign = provost.call("create_task", &foreign)["task_id"].clone();
    let attempt = board.start("fake", "hang");
    attempt.in_phase("running");
    let mut command = provost.command(&["mcp"]);
    command.env("PROVOST_ATTEMPT_ID", &attempt.id).current_dir(&other.path);
    let mut worker = Client::over_bridge(command);
    for beyond in [
        json!({"title": "Test", "task_id": foreign}),
        json!({"title": "Test", "project_id": made["project_id"]}),
    ] {
        let answer = worker.ask("createTicket", &beyond);
        assert_eq!(error(&answer)["code"], 403, "{answer}");
    }
    let own = worker.ask("createTicket", &json!({"title": "Test", "task_id": "TASK-001"}));
    assert_eq!(own["result"]["success"], true, "{own}");
}

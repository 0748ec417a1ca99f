//! The worker's side: who it is, and each group of its tools.

mod checks;
mod claims;
mod consult;
mod desk;
mod done;
mod errors;
mod failure;
mod import;
pub mod inbox;
mod nearest;
mod next;
mod notes;
mod plans;
mod question;
mod reported;
mod status;
mod tickets;
mod verification;

use serde_json::{Value, json};

use crate::harness::{Client, PLAIN, Provost};

/// An agent that speaks MCP by hand: a handshake, the list of tools, a call.
fn agent(provost: &str) -> String {
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "agent", "version": "1"}}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
        "name": "get_context", "arguments": {}}});
    let refused = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {
        "name": "list_projects", "arguments": {}}});
    format!("'{provost}' mcp <<'END'\n{initialize}\n{initialized}\n{list}\n{call}\n{refused}\nEND")
}

#[test]
fn an_agent_inside_an_attempt_learns_where_it_is() {
    let provost =
        Provost::new().executor("agent", PLAIN, &agent(env!("CARGO_BIN_EXE_provost"))).started();
    let board = provost.board();
    let attempt = board.start("agent", "x");
    assert_eq!(attempt.settled()["state"], "completed");
    // The log has a long line in parts.
    let said = attempt.lines("stdout").concat();
    let answers = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let answers: Vec<Value> = answers.map(Result::unwrap).collect();
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    let tools = answer(2)["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "get_context"));
    assert!(!tools.iter().any(|tool| tool["name"] == "start_task_attempt"));
    let status = attempt.status();
    assert_eq!(
        answer(3)["result"]["structuredContent"],
        json!({"project_id": board.project_id, "project_name": "scratch",
            "task_id": status["task_id"], "handle": "TASK-001", "task_title": "do something",
            "task_status": "inprogress", "attempt_id": attempt.id,
            "workspace_branch": status["workspace_branch"], "worktree": status["worktree"],
            "workspace_repos": [{"repo_id": board.repo_ids[0], "repo_name": "app",
                "target_branch": "main"}]})
    );
    assert_eq!(answer(4)["result"]["structuredContent"]["code"], "not_permitted");
}

#[test]
fn the_working_directory_alone_makes_a_worker() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "run pwd");
    attempt.settled();
    let mut command = provost.command(&["mcp"]);
    command.current_dir(&attempt.said("tool_result")[0]);
    let mut client = Client::over_bridge(command);
    client.initialize();
    let context = client.call("get_context", &json!({})).output();
    assert_eq!(context["attempt_id"], attempt.id);
}

#[test]
fn an_agent_does_not_start_a_daemon_that_would_be_part_of_its_attempt() {
    let provost = Provost::new();
    let mut command = provost.command(&["call", "list_projects"]);
    command.env("PROVOST_ATTEMPT_ID", "01900000-0000-7000-8000-000000000000");
    let done = Provost::done(command);
    assert_eq!(done.code, 3, "{done:?}");
    assert_eq!(provost.processes(), Vec::<i32>::new());
}

//! What agents ask a permission for. The requests are those of real agents, with
//! shorter paths.

use serde_json::{Value, json};

use super::*;

/// What an agent says of a call before it asks, its request, and what is shown of it.
fn asked(name: &str, announced: &Value, request: &Value) -> Vec<Observed> {
    let mut dialogue =
        Dialogue { prompt: "do it".into(), ..Dialogue::with_options(&options(name, "none")) };
    dialogue.quirks.servers.push("provost".into());
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    let asks = json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission",
        "params": {"sessionId": "s1", "options": options, "toolCall": request}});
    working(dialogue, &[update(announced), asks])
}

fn request_of(observed: &[Observed]) -> Option<Request> {
    observed.iter().find_map(|one| match one {
        Observed::Ask(request) => Some(request.clone()),
        _ => None,
    })
}

#[test]
fn a_permission_holds_what_will_be_done_whatever_the_agent_announced() {
    let announced = |title: &str, kind: &str| {
        json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "status": "pending", "title": title,
            "content": [], "locations": [], "kind": kind, "rawInput": {}})
    };
    let of_qwen = |mut announced: Value, tool: &str| {
        announced["_meta"] = json!({"toolName": tool, "phase": "preparing"});
        announced
    };
    let diff = |before: &str, after: &str| json!([{"type": "diff", "path": "/w/a", "oldText": before, "newText": after}]);
    for (name, announced, request, action) in [
        (
            "qwen",
            of_qwen(announced("WriteFile", "edit"), "write_file"),
            json!({"toolCallId": "c1", "status": "pending", "title": "Writing to a", "kind": "edit",
                "content": diff("", "one\n"), "locations": [{"path": "/w/a"}],
                "rawInput": {"file_path": "/w/a", "content": "one\n"}, "_meta": {"toolName": "write_file"}}),
            json!({"type": "file_edit", "path": "/w/a", "content": "one\n"}),
        ),
        (
            "qwen",
            of_qwen(announced("Shell", "execute"), "run_shell_command"),
            json!({"toolCallId": "c1", "status": "pending", "title": "exit 3 (described)", "kind": "execute",
                "content": [], "locations": [], "rawInput": {"command": "rm -r x\nexit 3"},
                "_meta": {"toolName": "run_shell_command"}}),
            json!({"type": "command", "command": "rm -r x\nexit 3"}),
        ),
        (
            "qwen",
            of_qwen(announced("ToolCall", "other"), "mcp__own__ping"),
            json!({"toolCallId": "c1", "title": "{\"message\":\"hi\"}", "kind": "other",
                "rawInput": {"message": "hi"}, "_meta": {"toolName": "mcp__own__ping"}}),
            json!({"type": "mcp", "server": "own", "tool": "ping", "input": {"message": "hi"}}),
        ),
        (
            "opencode",
            announced("edit", "edit"),
            json!({"toolCallId": "c1", "title": "/w/a", "kind": "edit", "locations": [{"path": "/w/a"}],
                "content": diff("one\ntwo\n", "one\n2\n"),
                "rawInput": {"filepath": "/w/a", "diff": "Index: /w/a\n"}}),
            json!({"type": "file_edit", "path": "/w/a", "diff": " one\n-two\n+2\n"}),
        ),
        (
            "opencode",
            announced("bash", "execute"),
            json!({"toolCallId": "c1", "title": "bash", "kind": "execute", "locations": [],
                "rawInput": {"command": "exit 3"}}),
            json!({"type": "command", "command": "exit 3"}),
        ),
        (
            "copilot",
            json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Editing /w/a", "kind": "edit",
                "rawInput": {"path": "/w/a", "old_str": "1", "new_str": "2"}, "content": diff("1", "2")}),
            json!({"toolCallId": "c1", "title": "Edit file", "kind": "edit", "locations": [{"path": "/w/a"}],
                "rawInput": {"fileName": "/w/a", "diff": "-1\n+3\n"}}),
            json!({"type": "file_edit", "path": "/w/a", "diff": "-1\n+3\n"}),
        ),
        (
            "copilot",
            json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "provost-view", "kind": "execute",
                "rawInput": {"command": "rm -r x", "description": "provost-view"}}),
            json!({"toolCallId": "c1", "title": "provost-view", "kind": "execute",
                "rawInput": {"command": "rm -r x", "commands": ["rm -r x"]}}),
            json!({"type": "command", "command": "rm -r x"}),
        ),
        (
            "gemini",
            announced("-", "other"),
            json!({"toolCallId": "replace__c1", "title": "a: 1 => 2", "kind": "edit",
                "content": diff("1\n", "2\n"), "locations": [{"path": "/w/a"}]}),
            json!({"type": "file_edit", "path": "/w/a", "diff": "-1\n+2\n"}),
        ),
        (
            "kimi",
            json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Bash", "kind": "execute",
                "content": [{"type": "content", "content": {"type": "text", "text": "{\"command\": \"make\"}"}}]}),
            json!({"toolCallId": "c1", "title": "Bash", "content":
                [{"type": "content", "content": {"type": "text", "text": "Requesting approval to Running: make"}}]}),
            json!({"type": "command", "command": "make"}),
        ),
    ] {
        let request = request_of(&asked(name, &announced, &request)).unwrap();
        assert_eq!(json!(request.action), action, "{name}: {}", request.text);
    }
}

#[test]
fn what_a_permission_holds_is_bounded() {
    let content = "x".repeat(Action::VALUE_MAX + 1);
    let request = json!({"toolCallId": "c1", "title": "Write", "kind": "edit",
        "rawInput": {"path": "/w/a", "content": content}});
    let announced = json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Write"});
    let action = request_of(&asked("kimi", &announced, &request)).unwrap().action;
    assert_eq!(action.detail["truncated"], true);
    assert_eq!(action.detail["content"].as_str().unwrap().len(), Action::VALUE_MAX);
}

#[test]
fn only_the_tools_of_our_own_server_need_no_permission() {
    let of_meta = |name: &str| json!({"toolCallId": "c1", "title": "{}", "kind": "other", "_meta": {"toolName": name}});
    let of_title = |title: &str| json!({"toolCallId": "0:c1", "title": title});
    let of_id = |id: &str, title: &str| json!({"toolCallId": id, "title": title, "kind": "other"});
    let own = "get_context (provost MCP Server)";
    for (name, request, is_own) in [
        ("qwen", of_meta("mcp__provost__get_context"), true),
        ("qwen", of_meta("mcp__provost__x__y"), false),
        ("qwen", of_meta("mcp__provost_x__y"), false),
        ("qwen", of_meta("run_shell_command"), false),
        // A model may write a title, and choose a command.
        ("qwen", of_title("mcp__provost__get_context"), false),
        ("kimi", of_title("mcp__provost__get_context"), true),
        ("kimi", of_title("Bash"), false),
        ("kimi", json!({"toolCallId": "c1", "title": "mcp__provost__x", "kind": "execute"}), false),
        ("gemini", of_id("mcp_provost_get_context__7", own), true),
        ("gemini", of_id("run_shell_command__7", own), false),
        ("gemini", of_id("mcp_provost_x_y__7", "y (provost_x MCP Server)"), false),
        (
            "gemini",
            json!({"toolCallId": "mcp_provost_get_context__7", "title": own, "kind": "execute"}),
            false,
        ),
        // It asks for none of these itself; a title is its model's.
        ("copilot", of_title("mcp__provost__get_context"), false),
    ] {
        let announced = json!({"sessionUpdate": "plan", "entries": []});
        let observed = asked(name, &announced, &request);
        assert_eq!(request_of(&observed).is_none(), is_own, "{name} {request}");
        let answer = says(&observed).pop().unwrap();
        if is_own {
            assert_eq!(
                answer["result"]["outcome"],
                json!({"outcome": "selected", "optionId": "yes"})
            );
        } else {
            assert_eq!(answer["method"], "session/prompt");
        }
    }
}

#[test]
fn more_requests_than_anyone_can_answer_are_denied() {
    let lines: Vec<Value> = (0..105)
        .map(|number| {
            let mut asks = permission(&json!([]));
            asks["id"] = number.into();
            asks
        })
        .collect();
    let observed = working(prompted(), &lines);
    let asks = observed.iter().filter(|one| matches!(one, Observed::Ask(_)));
    assert_eq!(asks.count(), 100);
    let denied = says(&observed);
    let denied = denied.iter().filter(|line| line["result"]["outcome"]["outcome"] == "cancelled");
    assert_eq!(denied.count(), 5);
}

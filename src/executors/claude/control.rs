//! The client's side of Claude Code's control protocol, line by line.

use provost_actors::executor::{McpServer, Message, Request, Verdict};
use serde_json::{Value, json};

/// What stands in the log where a secret stood.
const REDACTED: &str = "[redacted:";
/// The id of the request that interrupts the turn: there is one at most.
const INTERRUPT: &str = "interrupt";

/// The first line; hooks and the like are left to the user's settings.
pub fn initialize() -> Message {
    request("initialize", &json!({ "subtype": "initialize", "hooks": null }))
}

/// The user's message, which begins the turn.
pub fn prompt(text: &str) -> Message {
    let content = json!([{ "type": "text", "text": text }]);
    let message = json!({ "role": "user", "content": content });
    message_of(
        "prompt",
        &json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""
        }),
    )
}

/// Ends the turn, and the tool that it runs.
pub fn interrupt() -> Message {
    request(INTERRUPT, &json!({ "subtype": "interrupt" }))
}

/// The answer to `can_use_tool`.
pub fn verdict(request: &Request, verdict: &Verdict) -> Message {
    let response = match verdict {
        Verdict::Approve => approve(&request.context["input"]),
        Verdict::Deny { reason } => json!({ "behavior": "deny", "message": reason }),
    };
    respond(
        &request.key,
        &json!({
            "subtype": "success", "request_id": request.key, "response": response
        }),
    )
}

/// Older versions want the input back. One that holds a secret came without it,
/// and is not to be run as it came.
fn approve(input: &Value) -> Value {
    if input.to_string().contains(REDACTED) {
        return json!({ "behavior": "allow" });
    }
    json!({ "behavior": "allow", "updatedInput": input })
}

/// The answer to a request of which nothing is known here.
pub fn unsupported(request_id: &str, subtype: &str) -> Message {
    let error = format!("{subtype} is not supported");
    respond(
        request_id,
        &json!({
            "subtype": "error", "request_id": request_id, "error": error
        }),
    )
}

/// The value of `--mcp-config`.
pub fn mcp_config(server: &McpServer) -> Value {
    let McpServer { name, command, args, env } = server;
    let entry = json!({ "type": "stdio", "command": command, "args": args, "env": env });
    json!({ "mcpServers": { *name: entry } })
}

fn request(id: &str, request: &Value) -> Message {
    message_of(
        id,
        &json!({
            "type": "control_request", "request_id": id, "request": request
        }),
    )
}

fn respond(request_id: &str, response: &Value) -> Message {
    let line = json!({ "type": "control_response", "response": response });
    message_of(&format!("answer:{request_id}"), &line)
}

fn message_of(key: &str, line: &Value) -> Message {
    Message { key: key.to_owned(), line: line.to_string() }
}

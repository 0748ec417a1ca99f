//! The client's side of Claude Code's control protocol, line by line.

use provost_actors::executor::{Message, Request, Verdict};
use serde_json::{Value, json};

/// The log has this in place of a secret.
const REDACTED: &str = "[redacted:";
/// The id of the request that interrupts the turn, of which there is one at most.
const INTERRUPT: &str = "interrupt";

/// The first line. Hooks are left to the user's settings.
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

/// Interrupts the turn and its running tool.
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

/// Older versions want the input back. An input with a redacted secret must not be run
/// as it came.
fn approve(input: &Value) -> Value {
    if input.to_string().contains(REDACTED) {
        return json!({ "behavior": "allow" });
    }
    json!({ "behavior": "allow", "updatedInput": input })
}

/// The answer to a request of an unknown kind.
pub fn unsupported(request_id: &str, subtype: &str) -> Message {
    let error = format!("{subtype} is not supported");
    respond(
        request_id,
        &json!({
            "subtype": "error", "request_id": request_id, "error": error
        }),
    )
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

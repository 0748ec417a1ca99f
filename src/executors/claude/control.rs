//! The client's side of Claude Code's control protocol. Each function makes one line.

use crate::executors::prelude::*;

/// The beginning of what the log has in place of a secret.
const REDACTED: &str = "[redacted:";

/// The first message. `hooks: null`: those of the user's settings apply.
pub fn initialize() -> Message {
    request("initialize", &json!({ "subtype": "initialize", "hooks": null }))
}

/// The user's message, which begins the turn.
pub fn prompt(text: &str) -> Message {
    let said = json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
    let line = json!({
        "type": "user", "message": said, "parent_tool_use_id": null, "session_id": "",
    });
    message("prompt", &line)
}

/// Interrupts the turn and its running tool. Its id is fixed, so it is sent at most once to a process.
pub fn interrupt() -> Message {
    request("interrupt", &json!({ "subtype": "interrupt" }))
}

/// The answer to `can_use_tool`. Older versions need the input back, as `updatedInput`. An input in which a
/// secret was redacted is not sent back: the CLI would run the redacted text.
pub fn verdict(request: &Request, verdict: &Verdict) -> Message {
    let (id, input) = (&request.key, &request.context["input"]);
    let response = match verdict {
        Verdict::Approve if input.to_string().contains(REDACTED) => json!({ "behavior": "allow" }),
        Verdict::Approve => json!({ "behavior": "allow", "updatedInput": input }),
        Verdict::Deny { reason } | Verdict::Answer { text: reason } => {
            json!({ "behavior": "deny", "message": reason })
        }
    };
    respond(id, &json!({ "subtype": "success", "request_id": id, "response": response }))
}

/// The answer to a request of an unknown kind.
pub fn unsupported(request_id: &str, subtype: &str) -> Message {
    let error = format!("{subtype} is not supported");
    respond(request_id, &json!({ "subtype": "error", "request_id": request_id, "error": error }))
}

fn request(id: &str, request: &Value) -> Message {
    message(id, &json!({ "type": "control_request", "request_id": id, "request": request }))
}

fn respond(request_id: &str, response: &Value) -> Message {
    let line = json!({ "type": "control_response", "response": response });
    message(format!("answer:{request_id}"), &line)
}

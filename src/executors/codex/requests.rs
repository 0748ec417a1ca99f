//! Requests of the app server: permissions wait for a verdict, and requests that need a person at a
//! terminal are refused at once. Pure.
//!
//! The shapes are those of `codex app-server generate-json-schema`.

use super::item::{Items, present};
use crate::executors::prelude::*;

/// "Method not found", JSON-RPC 2.0 section 5.1.
const METHOD_NOT_FOUND: i32 = -32601;

/// Reads a request; `calls` has the tool call that it is about. `Err`: the answer to send at once, and the
/// reason for the log.
pub fn read(
    method: &str,
    id: &Value,
    params: &Value,
    calls: &Items,
) -> Result<Request, (Value, String)> {
    let text = |key: &str| params[key].as_str().unwrap_or_default();
    let refused = |result: Value, why: String| Err((json!({ "id": id, "result": result }), why));
    let permission = |what, tool, form| Ok(permission(id, params, calls, what, tool, form));
    match method {
        "item/commandExecution/requestApproval" => {
            let host = params["networkApprovalContext"]["host"].as_str();
            let what = host.map_or_else(
                || format!("to run {}", text("command")),
                |host| format!("to reach {host}"),
            );
            let detail = json!({ "command": params["command"], "host": host });
            let action = action(ActionKind::Command, detail);
            let tool = ("command_execution".to_owned(), action);
            permission(what, tool, "decision")
        }
        "item/fileChange/requestApproval" => {
            let tool = ("file_change".to_owned(), action(ActionKind::FileEdit, json!({})));
            let what = match text("grantRoot") {
                "" => "to change files".to_owned(),
                root => format!("to change files below {root}"),
            };
            permission(what, tool, "decision")
        }
        "item/permissions/requestApproval" => {
            let input = json!({ "input": params["permissions"] });
            let tool = ("permissions".to_owned(), action(ActionKind::Other, input));
            let what = format!("more rights: {}", params["permissions"]);
            permission(what, tool, "permissions")
        }
        "mcpServer/elicitation/request" if params["_meta"]["codex_approval_kind"].is_string() => {
            let (server, tool) = (text("serverName"), &params["_meta"]["tool_name"]);
            let name = format!("mcp__{server}__{}", tool.as_str().unwrap_or_default());
            let input = &params["_meta"]["tool_params"];
            let detail = json!({ "server": server, "tool": tool, "input": input });
            let action = action(ActionKind::Mcp, detail);
            let what = format!("to call {name} {}", params["_meta"]["tool_params"]);
            permission(what, (name, action), "elicitation")
        }
        "mcpServer/elicitation/request" => {
            let why = format!("{} asks: {}", text("serverName"), text("message"));
            refused(json!({ "action": "decline", "content": null, "_meta": null }), why)
        }
        "item/tool/requestUserInput" => {
            let questions: Vec<&str> =
                items(params, "questions").filter_map(|one| one["question"].as_str()).collect();
            refused(json!({ "answers": {} }), format!("it asks: {}", questions.join(" ")))
        }
        method => {
            let error = json!({ "code": METHOD_NOT_FOUND, "message": "not supported" });
            Err((json!({ "id": id, "error": error }), format!("it requests {method}")))
        }
    }
}

fn action(kind: ActionKind, detail: Value) -> Action {
    Action { kind, detail: present(detail) }
}

/// A permission request. The tool call gives the name and action if it is known, and `otherwise` if it
/// is not. `form` says in which shape the answer is given.
fn permission(
    id: &Value,
    params: &Value,
    calls: &Items,
    what: String,
    otherwise: (String, Action),
    form: &str,
) -> Request {
    let item = params["itemId"].as_str();
    let call = item.and_then(|item| calls.calls.get(item));
    let (tool_name, asked) = otherwise;
    let tool_name = call.map_or(tool_name, |call| call.name.clone());
    // The request's own details override those of the call, which was reported before.
    let mut action = call.map_or_else(|| asked.clone(), |call| call.action.clone());
    action.detail.extend(asked.detail);
    let action = action.bounded();
    let paths = action.detail.get("changes").and_then(Value::as_array).into_iter().flatten();
    let paths: Vec<&str> = paths.filter_map(|change| change["path"].as_str()).collect();
    let reason = params["reason"].as_str().filter(|reason| !reason.is_empty());
    let text =
        [Some(what), (!paths.is_empty()).then(|| paths.join(", ")), reason.map(str::to_owned)];
    Request {
        key: key(id),
        tool_call_id: item.map(str::to_owned),
        tool_name,
        text: text.into_iter().flatten().collect::<Vec<_>>().join(": "),
        action,
        question: None,
        context: json!({
            "id": id,
            "form": form,
            "thread": params["threadId"],
            "turn": params["turnId"],
            "permissions": params["permissions"],
        }),
    }
}

/// The key of the request with this id, which is a string or a number.
pub fn key(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// The answer to a permission. The protocol has no field for the reason of a denial, so a `turn/steer`
/// before it tells the model. Both lines are one message, so that neither is sent without the other.
pub fn answer(request: &Request, verdict: &Verdict) -> Message {
    let context = &request.context;
    let approves = *verdict == Verdict::Approve;
    let result = match context["form"].as_str() {
        Some("permissions") => {
            let granted = if approves { context["permissions"].clone() } else { json!({}) };
            json!({ "permissions": granted, "scope": "turn" })
        }
        Some("elicitation") => {
            let (action, content) =
                if approves { ("accept", json!({})) } else { ("decline", Value::Null) };
            json!({ "action": action, "content": content, "_meta": null })
        }
        _ => json!({ "decision": if approves { "accept" } else { "decline" } }),
    };
    let answer = json!({ "id": context["id"], "result": result }).to_string();
    let line = match verdict {
        Verdict::Deny { reason } if context["turn"].is_string() => {
            let denied = format!("Permission denied ({}): {reason}", request.text);
            let steer = json!({
                "id": format!("steer:{}", request.key),
                "method": "turn/steer",
                "params": {
                    "threadId": context["thread"],
                    "expectedTurnId": context["turn"],
                    "input": [{ "type": "text", "text": denied }],
                },
            });
            format!("{steer}\n{answer}")
        }
        _ => answer,
    };
    Message { key: format!("answer:{}", request.key), line }
}

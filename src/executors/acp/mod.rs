//! `acp`: agents that speak the Agent Client Protocol (<https://agentclientprotocol.com>), version 1:
//! JSON-RPC 2.0, one message in each line. Options of the configuration say in what an agent differs from
//! the protocol (`builtin.toml`).
//!
//! `conversation` has what the client says, `normalize` reads what the agent writes, `tools` and `call`
//! keep tool calls, `question` reads questions, `background` and `usage` what the protocol has no words
//! for, `settings` the session's options.

mod background;
mod call;
mod conversation;
mod normalize;
mod question;
mod settings;
mod tools;
mod usage;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{EnvVariable, McpServer, McpServerStdio};
use provost_actors::executor::McpServer as WayBack;

use super::call::{as_text, mcp_config};
use super::prelude::*;
use conversation::Dialogue;

/// The launch of a turn. The daemon's MCP server is given with the session, or as an argument where the
/// option `mcp_config_arg` names one. `Err`: the dialogue can't be serialized.
pub fn launch(turn: &Turn, mut call: Call) -> Result<Launch, String> {
    let mut dialogue = Dialogue {
        prompt: as_text(&turn.prompt),
        cwd: turn.cwd.clone(),
        resumes: turn.executor_session_id.clone(),
        forks: turn.forks,
        ..Dialogue::with_options(&call.options)
    };
    if call.supports_mcp {
        dialogue.quirks.servers.push(turn.mcp.name.to_owned());
        match call.options.get("mcp_config_arg") {
            Some(flag) => {
                let mut config = mcp_config(&turn.mcp, "local");
                config["mcpServers"][turn.mcp.name]["tools"] = json!(["*"]);
                call.args.extend([flag.clone(), config.to_string()]);
            }
            None => dialogue.mcp_servers.push(way_back(&turn.mcp)),
        }
    }
    let dialogue = serde_json::to_value(dialogue)
        .map_err(|error| format!("the conversation can't be serialized: {error}"))?;
    Ok(Launch { dialogue, ..call.launch(Stdin::Open) })
}

/// The reader of one process. With a null dialogue it only reads, and sends nothing.
pub fn normalizer(dialogue: &Value) -> Box<dyn Normalizer> {
    normalize::normalizer(Dialogue::deserialize(dialogue).ok())
}

/// The answer to a permission request; the protocol has no field for a reason. A text that is none of the
/// question's options rejects. `None`: the context is not that of an ACP request.
pub fn answer(request: &Request, verdict: &Verdict) -> Option<Message> {
    let choice = Choice::deserialize(&request.context).ok()?;
    let mut answers = None;
    let option = match verdict {
        Verdict::Approve => choice.allow,
        Verdict::Deny { .. } => choice.reject,
        Verdict::Answer { text } if choice.questions > 0 => {
            answers = Some(question::answers(text, choice.questions));
            choice.allow
        }
        Verdict::Answer { text } => {
            let mut named = choice.answers.into_iter();
            named.find(|(name, _)| name == text).map(|(_, id)| id).or(choice.reject)
        }
    };
    let outcome = match option {
        Some(id) => json!({ "outcome": "selected", "optionId": id }),
        None => json!({ "outcome": "cancelled" }),
    };
    let mut result = json!({ "outcome": outcome });
    if let Some(answers) = answers {
        result["answers"] = answers;
    }
    Some(respond(&choice.id, &result))
}

/// What is needed later to answer a permission request: the request's context.
#[derive(Serialize, Deserialize)]
struct Choice {
    /// The request's id.
    id: Value,
    /// The id of the option that allows it: once, or always if there is no such option.
    allow: Option<String>,
    /// The id of the option that rejects it; `None`: the answer is "cancelled".
    reject: Option<String>,
    /// The names and ids of a question's answers, where each answer is an option of the request (Kimi Code).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answers: Vec<(String, String)>,
    /// The number of questions whose answers are texts beside the option (Qwen Code); else 0.
    #[serde(default, skip_serializing_if = "is_none")]
    questions: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(questions: &usize) -> bool {
    *questions == 0
}

/// A request of ours. Its parameters hold strings, numbers, and paths that came from JSON, so they can
/// always be serialized.
fn request(key: &str, id: u32, method: &str, params: &impl Serialize) -> Message {
    message(key, &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// The answer to a request of the agent.
fn respond(id: &Value, result: &Value) -> Message {
    message(format!("answer:{id}"), &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// The answer to a request for a method that we did not offer.
fn not_found(id: &Value, method: &str) -> Message {
    let error = json!({ "code": -32601, "message": format!("Method not found: {method}") });
    message(format!("answer:{id}"), &json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

/// The daemon's MCP server in the protocol's form.
fn way_back(server: &WayBack) -> McpServer {
    let variable = |(name, value): (&String, &String)| EnvVariable::new(name, value);
    let stdio = McpServerStdio::new(server.name, server.command.clone());
    let env = server.env.iter().map(variable).collect();
    McpServer::Stdio(stdio.args(server.args.clone()).env(env))
}

impl Dialogue {
    /// Reads the configured options. Some say in what an agent differs from the protocol. All others are set
    /// in the session, the mode and the model first, because agents offer the rest depending on them.
    fn with_options(options: &BTreeMap<String, String>) -> Self {
        let mut dialogue = Self::default();
        for (name, value) in options {
            let value = value.clone();
            match name.as_str() {
                "auth_method" => dialogue.auth_method = Some(value),
                "load_as" => dialogue.load_as = Some(value),
                "failure_prefix" => dialogue.quirks.failure_prefix = Some(value),
                "notice_prefix" => dialogue.quirks.notice_prefix = Some(value),
                "session_lost" => {
                    dialogue.quirks.lost = value.split('|').map(str::to_owned).collect();
                }
                "session_list" => dialogue.quirks.lists_sessions = value == "yes",
                "own_tools" => dialogue.quirks.own_tools = Some(value),
                "mcp_separator" => dialogue.quirks.mcp_separator = Some(value),
                "background" => dialogue.quirks.is_silent_between = value == "silent",
                "silence" => dialogue.quirks.silence_is_failure = value == "failure",
                "mcp_config_arg" => {}
                _ => dialogue.settings.push((name.clone(), value)),
            }
        }
        let rank = |name: &str| match name {
            "mode" => 0,
            "model" => 1,
            _ => 2,
        };
        dialogue.settings.sort_by_key(|(name, _)| rank(name));
        dialogue
    }
}

//! `codex`: OpenAI's Codex CLI by `codex app-server`, JSON-RPC on standard input
//! and output. A process has one turn; a follow-up resumes its thread in a new
//! one. The way back is given with the thread, as configuration of its own.

mod app_server;
mod error;
mod item;
mod requests;
mod usage;

#[cfg(test)]
mod tests;

use provost_actors::executor::{Launch, Message, Normalizer, Request, Stdin, Turn, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};

use super::adapter::{Abilities, Adapter, Call};
use super::json::Json;
use app_server::{AppServer, Dialogue};

/// The protocol.
pub struct Codex;

impl Adapter for Codex {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    fn launch(&self, turn: &Turn, call: Call) -> Result<Launch, String> {
        let dialogue = Dialogue {
            prompt: turn.prompt.clone(),
            cwd: turn.cwd.clone(),
            resume: turn.executor_session_id.clone(),
            options: call.options.clone(),
            config: config(turn, call.supports_mcp),
        };
        let dialogue = serde_json::to_value(dialogue).map_err(|error| error.to_string())?;
        Ok(Launch { dialogue, ..call.launch(Stdin::Open) })
    }

    fn is_own(&self, dialogue: &Value) -> bool {
        dialogue["config"].is_object()
    }

    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer> {
        Json::reader(AppServer::new(Deserialize::deserialize(dialogue).ok()))
    }

    fn answer(&self, request: &Request, verdict: &Verdict) -> Option<Message> {
        Some(requests::answer(request, verdict))
    }
}

/// Configuration of the thread alone, which overrides the user's: its worktree is trusted
/// (Codex would otherwise write that into the user's own file), and this daemon is one of
/// its servers. Our tools need no permission: they act for the attempt, not on the machine.
fn config(turn: &Turn, has_way_back: bool) -> Value {
    let mut config =
        json!({ "projects": { turn.cwd.to_string_lossy(): { "trust_level": "trusted" } } });
    if has_way_back {
        let server = &turn.mcp;
        config["mcp_servers"] = json!({ server.name: {
            "command": server.command,
            "args": server.args,
            "env": server.env,
            "default_tools_approval_mode": "approve",
        } });
    }
    config
}

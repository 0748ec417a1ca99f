//! `codex`: OpenAI's Codex CLI as `codex app-server`, JSON-RPC on standard input and output. A process has
//! one turn; a follow-up resumes the thread in a new process. The daemon's MCP server is part of the
//! thread's own configuration.
//!
//! `app_server` has the conversation, `item` the tool calls and texts, `requests` the permissions, `usage`
//! the tokens, `error` the errors.

mod app_server;
mod error;
mod item;
mod requests;
mod usage;

#[cfg(test)]
mod tests;

use super::prelude::*;
use app_server::Dialogue;
pub use app_server::normalizer;
pub use requests::answer;

/// The launch of a turn. `Err`: the dialogue can't be serialized.
pub fn launch(turn: &Turn, call: Call) -> Result<Launch, String> {
    let dialogue = serde_json::to_value(Dialogue {
        prompt: turn.prompt.clone(),
        cwd: turn.cwd.clone(),
        resume: turn.executor_session_id.clone(),
        forks: turn.forks,
        options: call.options.clone(),
        config: config(turn, call.supports_mcp),
    });
    let dialogue = dialogue.map_err(|error| error.to_string())?;
    Ok(Launch { dialogue, ..call.launch(Stdin::Open) })
}

/// Configuration for this thread only, which overrides the user's. The worktree is trusted (otherwise
/// Codex would write that into the user's own file), and this daemon is one of the MCP servers. Its tools
/// need no permission: they act for the attempt, not on the machine.
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

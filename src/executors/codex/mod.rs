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

use super::prelude::*;
use app_server::Dialogue;
pub use app_server::normalizer;
pub use requests::answer;

/// The command line of a turn.
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

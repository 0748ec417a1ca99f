//! `claude`: Claude Code, by its two-way stream-json. `control` has what the client says, `normalize` reads
//! what the CLI writes.

mod control;
mod normalize;
#[cfg(test)]
mod tests;

use super::call::{as_text, mcp_config};
use super::prelude::*;
pub use control::verdict as answer;
pub use normalize::normalizer;

/// The launch of a turn. The prompt is part of the dialogue, and is sent on standard input.
pub fn launch(turn: &Turn, mut call: Call) -> Launch {
    let fixed = ["-p", "--verbose", "--include-partial-messages"];
    let formats = ["--input-format", "stream-json", "--output-format", "stream-json"];
    call.args.extend(fixed.iter().chain(&formats).map(ToString::to_string));
    call.option("model", "--model");
    call.option("effort", "--effort");
    call.option("permission_mode", "--permission-mode");
    if call.options.get("approvals").is_some_and(|asks| asks == "yes") {
        // A permission can only be allowed or denied, and a question needs another answer. So the tool
        // that asks questions is forbidden.
        let asks = ["--permission-prompt-tool", "stdio", "--disallowedTools", "AskUserQuestion"];
        call.args.extend(asks.map(ToOwned::to_owned));
    }
    if let Some(id) = &turn.executor_session_id {
        call.args.extend(["--resume".to_owned(), id.clone()]);
        call.args.extend(turn.forks.then(|| "--fork-session".to_owned()));
    }
    if call.supports_mcp {
        // It adds to the user's own servers, which stay available.
        let servers = mcp_config(&turn.mcp, "stdio").to_string();
        call.args.extend(["--mcp-config".to_owned(), servers]);
    }
    let own = call.supports_mcp.then_some(turn.mcp.name);
    let dialogue = json!({ "prompt": as_text(&turn.prompt), "own_server": own });
    Launch { dialogue, ..call.launch(Stdin::Open) }
}

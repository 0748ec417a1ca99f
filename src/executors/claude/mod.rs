//! `claude`: Claude Code, by its two-way stream-json.

mod control;
mod normalize;
#[cfg(test)]
mod tests;

use super::call::{as_text, mcp_config};
use super::prelude::*;
pub use control::verdict as answer;
pub use normalize::normalizer;

/// The command line of a turn.
pub fn launch(turn: &Turn, mut call: Call) -> Launch {
    let fixed = ["-p", "--verbose", "--include-partial-messages"];
    let formats = ["--input-format", "stream-json", "--output-format", "stream-json"];
    call.args.extend(fixed.iter().chain(&formats).map(ToString::to_string));
    call.option("model", "--model");
    call.option("effort", "--effort");
    call.option("permission_mode", "--permission-mode");
    if call.options.get("approvals").is_some_and(|asks| asks == "yes") {
        // A question has more answers than yes and no, so this tool is forbidden.
        let asks = ["--permission-prompt-tool", "stdio", "--disallowedTools", "AskUserQuestion"];
        call.args.extend(asks.map(ToOwned::to_owned));
    }
    if let Some(id) = &turn.executor_session_id {
        call.args.extend(["--resume".to_owned(), id.clone()]);
        call.args.extend(turn.forks.then(|| "--fork-session".to_owned()));
    }
    if call.supports_mcp {
        // The user's own servers stay available.
        let servers = mcp_config(&turn.mcp, "stdio").to_string();
        call.args.extend(["--mcp-config".to_owned(), servers]);
    }
    let own = call.supports_mcp.then_some(turn.mcp.name);
    let dialogue = json!({ "prompt": as_text(&turn.prompt), "own_server": own });
    Launch { dialogue, ..call.launch(Stdin::Open) }
}

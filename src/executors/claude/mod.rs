//! `claude`: Claude Code, by its two-way stream-json.

mod control;
mod normalize;
#[cfg(test)]
mod tests;

use provost_actors::executor::{Launch, Message, Normalizer, Request, Stdin, Turn, Verdict};
use serde_json::{Value, json};

use super::adapter::{Abilities, Adapter, Call, as_text, mcp_config};
use normalize::normalizer;

/// The protocol.
pub struct Claude;

impl Adapter for Claude {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    fn launch(&self, turn: &Turn, mut call: Call) -> Result<Launch, String> {
        let fixed = ["-p", "--verbose", "--include-partial-messages"];
        let formats = ["--input-format", "stream-json", "--output-format", "stream-json"];
        call.args.extend(fixed.iter().chain(&formats).map(ToString::to_string));
        call.option("model", "--model");
        call.option("effort", "--effort");
        call.option("permission_mode", "--permission-mode");
        if call.options.get("approvals").is_some_and(|asks| asks == "yes") {
            // A question has more answers than yes and no, so this tool is forbidden.
            let asks =
                ["--permission-prompt-tool", "stdio", "--disallowedTools", "AskUserQuestion"];
            call.args.extend(asks.map(ToOwned::to_owned));
        }
        if let Some(id) = &turn.executor_session_id {
            call.args.extend(["--resume".to_owned(), id.clone()]);
        }
        if call.supports_mcp {
            // The user's own servers stay available.
            let servers = mcp_config(&turn.mcp, "stdio").to_string();
            call.args.extend(["--mcp-config".to_owned(), servers]);
        }
        let own = call.supports_mcp.then_some(turn.mcp.name);
        let dialogue = json!({ "prompt": as_text(&turn.prompt), "own_server": own });
        Ok(Launch { dialogue, ..call.launch(Stdin::Open) })
    }

    fn is_own(&self, dialogue: &Value) -> bool {
        dialogue["prompt"].is_string()
    }

    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer> {
        normalizer(dialogue)
    }

    fn answer(&self, request: &Request, verdict: &Verdict) -> Option<Message> {
        Some(control::verdict(request, verdict))
    }
}

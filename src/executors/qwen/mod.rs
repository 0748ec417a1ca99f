//! `qwen`: Qwen Code, by its two-way stream-json, a dialect of Claude Code's.

use provost_actors::executor::{Launch, Message, Normalizer, Request, Stdin, Turn, Verdict};
use serde_json::{Value, json};

use super::adapter::{Abilities, Adapter, Call, as_text};
use super::claude::control;
use super::claude::normalize::{Flavour, normalizer};

/// The protocol.
pub struct Qwen;

impl Adapter for Qwen {
    fn abilities(&self) -> Abilities {
        Abilities { resume: true, interrupt: true, approvals: true, sessions: true }
    }

    fn launch(&self, turn: &Turn, mut call: Call) -> Result<Launch, String> {
        let formats = ["--input-format", "stream-json", "--output-format", "stream-json"];
        call.args
            .extend(formats.iter().chain(&["--include-partial-messages"]).map(ToString::to_string));
        call.option("model", "--model");
        call.option("approval_mode", "--approval-mode");
        if let Some(id) = &turn.executor_session_id {
            call.args.extend(["--resume".to_owned(), id.clone()]);
        }
        if call.supports_mcp {
            let config = control::mcp_config(&turn.mcp).to_string();
            call.args.extend(["--mcp-config".to_owned(), config]);
        }
        let is_resumed = turn.executor_session_id.is_some();
        let own = call.supports_mcp.then_some(turn.mcp.name);
        let dialogue = json!({
            "prompt": as_text(&turn.prompt), "is_resumed": is_resumed, "own_server": own,
        });
        Ok(Launch { dialogue, ..call.launch(Stdin::Open) })
    }

    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer> {
        normalizer(Flavour::Qwen, dialogue)
    }

    fn answer(&self, request: &Request, verdict: &Verdict) -> Option<Message> {
        Some(control::verdict(request, verdict))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Protocol;
    use crate::executors::tests::launches;

    #[test]
    fn a_turn_is_launched_and_a_later_one_resumes_it() {
        let options = [("approval_mode", "yolo")];
        insta::assert_json_snapshot!(launches(Protocol::Qwen, &options));
    }
}

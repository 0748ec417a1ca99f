//! `qwen`: Qwen Code, by its two-way stream-json, a dialect of Claude Code's.

use provost_actors::executor::{Launch, Message, Normalizer, Request, Stdin, Turn, Verdict};
use serde_json::{Value, json};

use super::adapter::{Abilities, Adapter, Call};
use super::claude::control;
use super::claude::normalize::{Flavour, normalizer};

/// The protocol.
pub struct Qwen;

impl Adapter for Qwen {
    fn abilities(&self) -> Abilities {
        Abilities { resume: true, interrupt: true, approvals: true }
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
        let dialogue = json!({ "prompt": turn.prompt });
        Ok(Launch { dialogue, ..call.launch(Stdin::Open) })
    }

    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer> {
        normalizer(Flavour::Qwen, dialogue)
    }

    fn answer(&self, request: &Request, verdict: &Verdict) -> Option<Message> {
        Some(control::verdict(request, verdict))
    }
}

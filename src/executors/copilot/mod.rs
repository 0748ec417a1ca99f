//! `copilot`: Copilot CLI for one prompt, by `--output-format json`. Permissions
//! are not asked for.

mod normalize;

use std::path::Path;

use provost_actors::executor::{Launch, McpServer, Normalizer, Turn};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Builder;

use super::adapter::{Abilities, Adapter, Call};

/// The protocol.
pub struct Copilot;

impl Adapter for Copilot {
    fn abilities(&self) -> Abilities {
        Abilities { resume: true, ..Abilities::default() }
    }

    fn launch(&self, turn: &Turn, mut call: Call) -> Result<Launch, String> {
        let fixed = ["--output-format", "json", "--no-auto-update", "--no-ask-user"];
        call.args.extend(fixed.map(ToOwned::to_owned));
        call.option("model", "--model");
        call.option("effort", "--reasoning-effort");
        if call.options.get("allow_all").is_some_and(|allowed| allowed == "on") {
            call.args.push("--allow-all".to_owned());
        }
        // It tells the id with its last line only; one that is chosen is known
        // even of a turn that was killed.
        let chosen = || conversation(&turn.scratch);
        let session = turn.executor_session_id.clone().unwrap_or_else(chosen);
        call.args.push(format!("--session-id={session}"));
        if call.supports_mcp {
            let config = mcp_config(&turn.mcp).to_string();
            call.args.extend(["--additional-mcp-config".to_owned(), config]);
        }
        let dialogue = json!({ "session": session });
        Ok(Launch { dialogue, ..call.with_prompt_flag(&turn.prompt, "--prompt")? })
    }

    fn normalizer(&self, dialogue: &Value) -> Box<dyn Normalizer> {
        normalize::normalizer(dialogue)
    }
}

/// A new id, the same for the same process.
fn conversation(scratch: &Path) -> String {
    let digest: [u8; 32] = Sha256::digest(scratch.as_os_str().as_encoded_bytes()).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_random_bytes(bytes).into_uuid().to_string()
}

fn mcp_config(server: &McpServer) -> Value {
    let McpServer { name, command, args, env } = server;
    let entry =
        json!({ "type": "local", "tools": ["*"], "command": command, "args": args, "env": env });
    json!({ "mcpServers": { *name: entry } })
}

#[cfg(test)]
mod tests {
    use crate::config::Protocol;
    use crate::executors::tests::launches;

    #[test]
    fn a_turn_is_launched_and_a_later_one_resumes_it() {
        let options = [("model", "m"), ("allow_all", "on")];
        insta::assert_json_snapshot!(launches(Protocol::Copilot, &options));
    }
}

//! `gemini`: Gemini CLI for one prompt, by its stream-json. A conversation is
//! resumed in the folder where it began; permissions are not asked for.

mod normalize;

use provost_actors::executor::{Launch, McpServer, Normalizer, Turn};
use serde_json::{Value, json};

use super::adapter::{Abilities, Adapter, Call};

/// The settings that name the way back. They stand for the system's.
const SETTINGS: &str = "gemini-settings.json";

/// The protocol.
pub struct Gemini;

impl Adapter for Gemini {
    fn abilities(&self) -> Abilities {
        Abilities { resume: true, ..Abilities::default() }
    }

    fn launch(&self, turn: &Turn, mut call: Call) -> Result<Launch, String> {
        let fixed = ["--output-format", "stream-json", "--skip-trust"];
        call.args.extend(fixed.map(ToOwned::to_owned));
        call.option("model", "--model");
        call.option("approval_mode", "--approval-mode");
        if let Some(id) = &turn.executor_session_id {
            call.args.extend(["--resume".to_owned(), id.clone()]);
        }
        // Else a launcher stands before it, and no signal reaches it.
        call.env.entry("GEMINI_CLI_NO_RELAUNCH".to_owned()).or_insert_with(|| "true".to_owned());
        let has_way_back = call.supports_mcp;
        let mut launch = call.with_prompt_flag(&turn.prompt, "--prompt")?;
        if has_way_back {
            let path = turn.scratch.join(SETTINGS).to_string_lossy().into_owned();
            launch.env.insert("GEMINI_CLI_SYSTEM_SETTINGS_PATH".to_owned(), path);
            launch.files.insert(SETTINGS.to_owned(), settings(&turn.mcp).to_string().into_bytes());
        }
        Ok(launch)
    }

    fn normalizer(&self, _: &Value) -> Box<dyn Normalizer> {
        normalize::normalizer()
    }
}

fn settings(server: &McpServer) -> Value {
    let McpServer { name, command, args, env } = server;
    let entry = json!({ "command": command, "args": args, "env": env, "trust": true });
    json!({ "mcpServers": { *name: entry } })
}

#[cfg(test)]
mod tests {
    use crate::config::Protocol;
    use crate::executors::tests::launches;

    #[test]
    fn a_turn_is_launched_and_a_later_one_resumes_it() {
        let options = [("model", "m"), ("approval_mode", "yolo")];
        insta::assert_json_snapshot!(launches(Protocol::Gemini, &options));
    }
}

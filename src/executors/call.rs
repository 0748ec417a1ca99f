//! What the protocols share in launching a CLI: its call, its prompt, the way back. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use provost_actors::executor::{Launch, McpServer, Stdin};
use serde_json::{Value, json};

use crate::config::PromptVia;

/// What the configuration says of one launch.
#[derive(Clone, Debug)]
pub struct Call {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// The executor's own arguments, then the variant's.
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The executor's options; the variant's take precedence.
    pub options: BTreeMap<String, String>,
    pub prompt: PromptVia,
    /// Whether the executor gets the way back to this daemon.
    pub supports_mcp: bool,
}

impl Call {
    /// A launch with the prompt where the configuration wants it.
    pub fn with_prompt(mut self, prompt: &str) -> Result<Launch, String> {
        match self.prompt {
            PromptVia::Stdin => Ok(self.launch(Stdin::Bytes(prompt.as_bytes().to_vec()))),
            PromptVia::Arg if prompt.contains('\0') => {
                Err("the prompt contains a NUL character, which no argument can".to_owned())
            }
            PromptVia::Arg => {
                self.args.push(prompt.to_owned());
                Ok(self.launch(Stdin::Empty))
            }
        }
    }

    /// Passes an option of the configuration, where it is set, as this flag.
    pub fn option(&mut self, name: &str, flag: &str) {
        if let Some(value) = self.options.get(name) {
            self.args.extend([flag.to_owned(), value.clone()]);
        }
    }

    pub fn launch(self, stdin: Stdin) -> Launch {
        let Self { program, args, env, .. } = self;
        let (files, dialogue) = (BTreeMap::new(), Value::Null);
        Launch { program, args, shown_as: None, env, stdin, files, dialogue }
    }
}

/// The way back as JSON for a CLI's command line, as a server of this type.
pub fn mcp_config(server: &McpServer, kind: &str) -> Value {
    let McpServer { name, command, args, env } = server;
    let entry = json!({ "type": kind, "command": command, "args": args, "env": env });
    json!({ "mcpServers": { *name: entry } })
}

/// A prompt as text: most CLIs take one that begins with `/` for a command of their
/// own, some of them also after white space.
pub fn as_text(prompt: &str) -> String {
    let lead = if prompt.trim_start().starts_with('/') { "Task: " } else { "" };
    format!("{lead}{prompt}")
}

/// Whether this is `mcp__SERVER__TOOL` with just this server.
pub fn is_tool_of(server: &str, name: &str) -> bool {
    let tool =
        name.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(server)?.strip_prefix("__"));
    let is_word = |tool: &str| tool.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    tool.is_some_and(|tool| !tool.is_empty() && !tool.contains("__") && is_word(tool))
}

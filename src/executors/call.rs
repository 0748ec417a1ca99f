//! What the protocols share when they launch a CLI: the call, the prompt, and the daemon's MCP server.
//! Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use provost_actors::executor::{Launch, McpServer, Stdin};
use serde_json::{Value, json};

use crate::config::PromptVia;

/// One launch as the configuration describes it; the protocol's module adds its own arguments.
#[derive(Clone, Debug)]
pub struct Call {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// The executor's own arguments, then the variant's.
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The executor's options, overridden by the variant's. Each protocol has its own names.
    pub options: BTreeMap<String, String>,
    pub prompt: PromptVia,
    /// Whether the executor gets this daemon as an MCP server.
    pub supports_mcp: bool,
}

impl Call {
    /// A launch with the prompt on standard input or as the last argument, as configured. `Err`: an argument
    /// can't have the prompt's NUL character.
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

    /// Adds an option of the configuration as a flag, if the option is set.
    pub fn option(&mut self, name: &str, flag: &str) {
        if let Some(value) = self.options.get(name) {
            self.args.extend([flag.to_owned(), value.clone()]);
        }
    }

    /// A launch without files and dialogue; protocols with a dialogue add theirs.
    pub fn launch(self, stdin: Stdin) -> Launch {
        let Self { program, args, env, .. } = self;
        let (files, dialogue) = (BTreeMap::new(), Value::Null);
        Launch { program, args, shown_as: None, env, stdin, files, dialogue }
    }
}

/// The daemon's MCP server as JSON, in the form that several CLIs take on their command lines. `kind` is
/// the CLI's word for a server on standard input and output.
pub fn mcp_config(server: &McpServer, kind: &str) -> Value {
    let McpServer { name, command, args, env } = server;
    let entry = json!({ "type": kind, "command": command, "args": args, "env": env });
    json!({ "mcpServers": { *name: entry } })
}

/// A prompt that no CLI takes for a command of its own: most do so if it begins with `/`, some also
/// after white space. Such a prompt gets "Task: " before it.
pub fn as_text(prompt: &str) -> String {
    let lead = if prompt.trim_start().starts_with('/') { "Task: " } else { "" };
    format!("{lead}{prompt}")
}

/// Whether a name is `mcp__SERVER__TOOL` of exactly this server. Calls of our own tools are allowed by it
/// without asking, so it accepts no name that could be read in two ways.
pub fn is_tool_of(server: &str, name: &str) -> bool {
    let tool =
        name.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(server)?.strip_prefix("__"));
    let is_word = |tool: &str| tool.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    tool.is_some_and(|tool| !tool.is_empty() && !tool.contains("__") && is_word(tool))
}

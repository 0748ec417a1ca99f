//! The protocols that an executor's program can speak, and how the prompt reaches it. Plain data.

use serde::{Deserialize, Serialize};

/// What an executor writes to its standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Lines of text.
    #[default]
    Plain,
    /// Lines of normalized entries as JSON.
    Events,
    /// The built-in executor, scripted by its prompt.
    Fake,
    /// Claude Code's two-way stream-json.
    Claude,
    /// `codex app-server`.
    Codex,
    /// The Agent Client Protocol.
    Acp,
}

impl Protocol {
    /// The spellings in `config.toml`, in the order of the variants.
    pub(super) const NAMES: [&str; 6] = ["plain", "events", "fake", "claude", "codex", "acp"];

    /// The spelling in `config.toml`.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The options that it knows. `None`: any, because they are the agent's own.
    pub(super) fn options(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Plain | Self::Events | Self::Fake => Some(&[]),
            Self::Claude => Some(&["model", "effort", "permission_mode", "approvals"]),
            Self::Codex => Some(&["model", "effort", "sandbox", "approval_policy"]),
            Self::Acp => None,
        }
    }

    /// All spellings, as the expectation of an error.
    pub(super) fn one_of() -> String {
        format!("one of {}", Self::NAMES.join(", "))
    }
}

/// How the prompt reaches the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptVia {
    /// On its standard input, which is then closed.
    #[default]
    Stdin,
    /// As its last argument.
    Arg,
}

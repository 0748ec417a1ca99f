//! Which tools a connection is shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a caller is to the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent that starts and steers attempts.
    Orchestrator,
    /// The agent inside an attempt.
    Worker,
    /// A person's verbs and scripts: every tool.
    All,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Orchestrator => "orchestrator",
            Self::Worker => "worker",
            Self::All => "all",
        })
    }
}

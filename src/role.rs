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

/// How far a connection may go. Each level holds those above it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Look, and ask.
    Read,
    /// Report, add, start, steer.
    Write,
    /// Take things off the board.
    Admin,
}

impl Access {
    /// What a role may do if nothing else is said.
    pub fn of(role: Role) -> Self {
        match role {
            Role::Worker => Self::Write,
            Role::Orchestrator | Role::All => Self::Admin,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        })
    }
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

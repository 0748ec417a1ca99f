//! Roles and access levels of connections. The comments on these types are texts of `--help`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The role of a caller, which decides the tools that it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent that starts and manages attempts
    Orchestrator,
    /// The agent inside an attempt
    #[default]
    Worker,
    /// The command line and scripts: every tool
    All,
}

/// What a connection may do. Each level includes those above it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read, and ask questions
    Read,
    /// Also report, add, start, continue and stop
    Write,
    /// Also delete
    Admin,
}

impl Access {
    /// The default of a role.
    pub fn of(role: Role) -> Self {
        match role {
            Role::Worker => Self::Write,
            Role::Orchestrator | Role::All => Self::Admin,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name(self, f)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        name(self, f)
    }
}

/// The name on the command line, which is the one in JSON.
fn name(value: &impl clap::ValueEnum, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    value.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
}

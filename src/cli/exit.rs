//! Why a verb failed and the exit code that says so. One place maps every
//! refusal to a code, without a wildcard. Pure.

use std::io;
use std::process::ExitCode;

use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::hints;
use crate::client::ClientError;
use crate::config::ConfigError;
use crate::daemon::DaemonError;
use crate::home::HomeError;
use crate::telemetry::TelemetryError;

/// The exit codes of the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Refused = 1,
    Usage = 2,
    /// No daemon can be reached, or its lock is held.
    Unreachable = 3,
    NotFound = 4,
    Conflict = 5,
    /// `wait`: the time was over first.
    TimedOut = 6,
    AttemptFailed = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb ended before it was done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// What was asked for makes no sense as it stands.
    #[error("{0}")]
    Usage(String),
    /// Refused on this side of the socket, as the daemon would.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// A fault that the daemon told of and that is not the caller's.
    #[error("{0}")]
    Fault(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Failure {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Client(ClientError::Unreachable(_) | ClientError::Lost(_)) | Self::Home(_) => {
                Exit::Unreachable
            }
            // Whoever started it in the background waits for the other one.
            Self::Daemon(error) if error.is_second() => Exit::Unreachable,
            Self::Client(ClientError::Refused(envelope)) => envelope.code.map_or(Exit::Refused, of),
            // The reader of what is printed has left (`| head`): done.
            Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Client(ClientError::Rpc { data: Some(data), .. }) => {
                Code::deserialize(&data["code"]).map_or(Exit::Refused, of)
            }
            Self::Refused(refusal) => of(refusal.code),
            Self::Client(ClientError::Rpc { .. } | ClientError::Garbled(_))
            | Self::Daemon(_)
            | Self::Fault(_)
            | Self::Io(_) => Exit::Refused,
            Self::Usage(_) | Self::Config(_) | Self::Telemetry(_) => Exit::Usage,
        }
    }

    /// The next thing to do for a person who typed this verb; empty if it is not known.
    pub fn hint(&self, verb: &str) -> String {
        let hint = match self {
            Self::Client(ClientError::Refused(envelope)) => &envelope.hint,
            Self::Client(ClientError::Rpc { data: Some(data), .. }) => {
                data["hint"].as_str().unwrap_or_default()
            }
            Self::Refused(refusal) => &refusal.hint,
            _ => "",
        };
        // Whoever calls tools is told of tools.
        if verb == "call" { hint.to_owned() } else { hints::for_person(hint, verb) }
    }

    /// The same for programs: the shape in which tools refuse.
    pub fn envelope(&self, verb: &str) -> Value {
        let known = match self {
            Self::Client(ClientError::Refused(envelope)) => Some(envelope.json.clone()),
            Self::Client(ClientError::Rpc { data: Some(data), .. }) => {
                Refusal::deserialize(data).ok().map(|refusal| refusal.envelope())
            }
            Self::Refused(refusal) => Some(refusal.envelope()),
            _ => None,
        };
        let mut envelope =
            known.unwrap_or_else(|| Refusal::new(self.code(), self.to_string()).envelope());
        envelope["hint"] = json!(self.hint(verb));
        envelope
    }

    /// The code of what did not come with one.
    fn code(&self) -> Code {
        match self.exit() {
            Exit::Usage => Code::InvalidArgument,
            Exit::Unreachable => Code::DaemonUnavailable,
            Exit::NotFound => Code::FileNotFound,
            Exit::Done | Exit::Refused | Exit::Conflict | Exit::TimedOut | Exit::AttemptFailed => {
                Code::Internal
            }
        }
    }
}

/// The exit code of a refused call.
pub fn of(code: Code) -> Exit {
    match code {
        Code::ProjectNotFound
        | Code::RepoNotFound
        | Code::TaskNotFound
        | Code::AttemptNotFound
        | Code::SessionNotFound
        | Code::TicketNotFound
        | Code::QuestionNotFound
        | Code::FileNotFound
        | Code::ExecutorNotFound
        | Code::VariantNotFound
        | Code::BranchNotFound
        | Code::NoSessionYet => Exit::NotFound,
        Code::TurnActive
        | Code::AttemptRunning
        | Code::IdempotencyConflict
        | Code::InvalidState
        | Code::DependencyCycle => Exit::Conflict,
        Code::DaemonUnavailable | Code::DaemonRestarting | Code::ShuttingDown => Exit::Unreachable,
        Code::MissingRequired
        | Code::InvalidArgument
        | Code::UnknownField
        | Code::AmbiguousTarget
        | Code::MixedPagination
        | Code::ExecutorUnavailable
        | Code::WorkspaceFailed
        | Code::SpawnFailed
        | Code::TokenLimitExceeded
        | Code::Timeout
        | Code::DbLocked
        | Code::DbUnavailable
        | Code::StorageFull
        | Code::RateLimited
        | Code::NotPermitted
        | Code::Internal => Exit::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_exit_code() {
        let table: Vec<String> =
            Code::ALL.iter().map(|code| format!("{} {}", of(*code) as u8, code.as_str())).collect();
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::Io(broken).exit(), Exit::Done);
    }
}

//! Why a verb failed and the exit code that says so. One place maps every
//! refusal to a code, without a wildcard. Pure.

use std::io;
use std::process::ExitCode;

use provost_actors::refusal::Code;

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
    #[error("{0}")]
    NotFound(String),
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
            // Nobody reads what is printed any more (`| head`): done.
            Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Client(ClientError::Rpc { .. } | ClientError::Garbled(_))
            | Self::Daemon(_)
            | Self::Fault(_)
            | Self::Io(_) => Exit::Refused,
            Self::Usage(_) | Self::Config(_) | Self::Telemetry(_) => Exit::Usage,
            Self::NotFound(_) => Exit::NotFound,
        }
    }

    /// The next thing to do, where it is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Client(ClientError::Refused(envelope)) => Some(&envelope.hint),
            Self::Client(ClientError::Rpc { data: Some(data), .. }) => data["hint"].as_str(),
            _ => None,
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

//! Why a verb failed, and its exit code. Pure.

use std::io;

use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::hints;
use crate::client::{ClientError, Envelope};
use crate::config::ConfigError;
use crate::daemon::{DaemonError, LockError};
use crate::home::HomeError;
use crate::telemetry::TelemetryError;

/// The exit codes of the command line, which `docs/operations.md` lists. Scripts rely on them: a code
/// never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It worked, or the reader of standard output has gone.
    Done = 0,
    /// Every failure without a code of its own.
    Refused = 1,
    Usage = 2,
    /// No daemon can be reached, or its lock is held.
    Unreachable = 3,
    /// An id, name, branch or file does not exist.
    NotFound = 4,
    /// A state forbids the call, such as a running turn; or work does not merge.
    Conflict = 5,
    /// The time limit of `wait` was reached first.
    TimedOut = 6,
    /// The attempt that was followed or waited for has failed.
    AttemptFailed = 7,
}

/// Why a verb failed.
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
    /// The arguments are wrong.
    #[error("{0}")]
    Usage(String),
    /// Refused by this process, in the form of the daemon's refusals.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// A fault that is not the caller's.
    #[error("{0}")]
    Fault(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Failure {
    /// The exit code. Of a refusal, its error code decides ([`of`]).
    pub fn exit(&self) -> Exit {
        match self {
            Self::Client(ClientError::Unreachable(_) | ClientError::Lost(_)) | Self::Home(_) => {
                Exit::Unreachable
            }
            // Two clients started a daemon at once. The client of this one connects to the other.
            Self::Daemon(DaemonError::Lock(LockError::Held { .. })) => Exit::Unreachable,
            // The reader of standard output has left (`| head`).
            Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Usage(_) | Self::Config(_) | Self::Telemetry(_) => Exit::Usage,
            _ => self.refusal().and_then(|refusal| refusal.code).map_or(Exit::Refused, of),
        }
    }

    /// The refusal of a tool, of a method, or of this client.
    fn refusal(&self) -> Option<Envelope> {
        match self {
            Self::Client(ClientError::Refused(envelope)) => Some((**envelope).clone()),
            Self::Client(ClientError::Rpc { data: Some(data), .. }) => {
                Some(Refusal::deserialize(data).ok()?.envelope().into())
            }
            Self::Refused(refusal) => Some(refusal.envelope().into()),
            _ => None,
        }
    }

    /// The next step, in words for a person who typed this verb; empty if unknown.
    pub fn hint(&self, verb: &str) -> String {
        let hint = self.refusal().map(|refusal| refusal.hint).unwrap_or_default();
        // `provost call` is the tool itself, so the tool's own hint fits.
        if verb == "call" { hint } else { hints::for_person(&hint, verb) }
    }

    /// The failure in the envelope of a tool's refusal, for `--json`.
    pub fn envelope(&self, verb: &str) -> Value {
        let code = match self.exit() {
            Exit::Usage => Code::InvalidArgument,
            Exit::Unreachable => Code::DaemonUnavailable,
            Exit::NotFound => Code::FileNotFound,
            _ => Code::Internal,
        };
        let other = || Refusal::new(code, self.to_string()).envelope();
        let mut envelope = self.refusal().map_or_else(other, |refusal| refusal.json);
        envelope["hint"] = json!(self.hint(verb));
        envelope
    }
}

/// The exit code for an error code of the daemon.
pub fn of(code: Code) -> Exit {
    match code {
        Code::ProjectNotFound
        | Code::RepoNotFound
        | Code::TaskNotFound
        | Code::AttemptNotFound
        | Code::SessionNotFound
        | Code::TurnNotFound
        | Code::TicketNotFound
        | Code::QuestionNotFound
        | Code::FileNotFound
        | Code::ExecutorNotFound
        | Code::VariantNotFound
        | Code::BranchNotFound
        | Code::NoSessionYet => Exit::NotFound,
        Code::TurnActive
        | Code::AttemptRunning
        | Code::CheckoutInTheWay
        | Code::IdempotencyConflict
        | Code::InvalidState
        | Code::Elsewhere
        | Code::DependencyCycle => Exit::Conflict,
        Code::DaemonUnavailable | Code::DaemonRestarting | Code::ShuttingDown => Exit::Unreachable,
        _ => Exit::Refused,
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

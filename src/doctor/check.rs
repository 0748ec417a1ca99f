//! One line of what the doctor has to say. Pure.

use std::path::PathBuf;

use provost_actors::process::identity::Process;
use serde::Serialize;

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ok,
    /// Worth knowing.
    Note,
    /// Something is not as it should be, and Provost works all the same.
    Warn,
    /// Something does not work.
    Fail,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What was looked at, and how it is.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: String,
    pub status: Status,
    pub message: String,
    /// The way out.
    pub hint: Option<String>,
    /// `doctor --fix` can mend it.
    pub fixable: bool,
    /// It was mended just now.
    pub fixed: bool,
    #[serde(skip)]
    pub cure: Option<Cure>,
}

/// What mends it; to be proved again before it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Nobody listens at the socket.
    RemoveSocket,
    /// A folder or file of ours is open to others.
    Close { path: PathBuf, mode: u32 },
    /// A lock of git's in an attempt's worktree that nobody holds.
    SetLockAside { lock: PathBuf, worktree: PathBuf },
    /// Processes of an attempt that is over.
    Kill { attempt: String, processes: Vec<Process> },
    /// What a dead process left behind.
    Trash(PathBuf),
}

impl Check {
    fn new(name: &str, status: Status, message: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            status,
            message: message.into(),
            hint: None,
            fixable: false,
            fixed: false,
            cure: None,
        }
    }

    pub fn ok(name: &str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, message)
    }

    pub fn note(name: &str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Note, message)
    }

    pub fn warn(name: &str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, message)
    }

    pub fn fail(name: &str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Fail, message)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn cure(mut self, cure: Cure) -> Self {
        self.fixable = true;
        self.cure = Some(cure);
        self.hint.get_or_insert_with(|| "Run `provost doctor --fix`.".to_owned());
        self
    }
}

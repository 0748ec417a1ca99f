//! One line of the doctor's output. Pure.

use std::path::PathBuf;

use provost_actors::process::identity::Process;
use serde::Serialize;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ok,
    /// Worth knowing.
    Note,
    /// Something is wrong, but Provost works.
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

/// What was examined, and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: String,
    pub status: Status,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// `doctor --fix` can fix it.
    pub fixable: bool,
    /// It was fixed just now.
    pub fixed: bool,
    #[serde(skip)]
    pub cure: Option<Cure>,
}

/// What fixes a finding, once the finding is proved again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Removes a socket that no daemon listens on.
    RemoveSocket,
    /// Closes a folder or file of ours to other users.
    Close { path: PathBuf, mode: u32 },
    /// Renames an abandoned lock of git's in an attempt's worktree.
    SetLockAside { lock: PathBuf, worktree: PathBuf },
    /// Kills the processes of an attempt that is over.
    Kill { attempt: String, processes: Vec<Process> },
    /// Moves to the trash what a dead process left behind.
    Trash(PathBuf),
}

impl Check {
    fn new(name: &str, status: Status, message: impl Into<String>) -> Self {
        let (name, message) = (name.to_owned(), message.into());
        Self { name, status, message, hint: None, fixable: false, fixed: false, cure: None }
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

//! One line of the doctor's output: what was found, and how it can be fixed.

use std::io;

use serde::Serialize;

pub use crate::api::commands::CheckStatus;
use crate::home::Home;

/// One thing that was checked, and the result. The fields are those of `provost doctor --json`.
#[derive(Serialize)]
pub struct Check {
    pub name: String,
    pub status: CheckStatus,
    pub message: String,
    /// What a person can do about it.
    pub hint: Option<String>,
    /// True if `doctor --fix` can fix it.
    pub fixable: bool,
    /// True if this run fixed it.
    pub fixed: bool,
    /// What `doctor --fix` runs; taken out when it has run.
    #[serde(skip)]
    pub cure: Option<Fix>,
}

/// Verifies a finding once more and fixes it; returns what was done. The home's lock is held while it
/// runs, so no daemon starts.
type Fix = Box<dyn FnOnce(&Home) -> io::Result<String> + Send>;

impl Check {
    /// An empty hint counts as none.
    fn new(name: &str, status: CheckStatus, message: impl Into<String>, hint: &str) -> Self {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        let (name, message) = (name.to_owned(), message.into());
        Self { name, status, message, hint, fixable: false, fixed: false, cure: None }
    }

    /// Nothing is wrong.
    pub fn ok(name: &str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Ok, message, "")
    }

    /// A fact that a person may want to know, and no fault.
    pub fn note(name: &str, message: impl Into<String>, hint: &str) -> Self {
        Self::new(name, CheckStatus::Note, message, hint)
    }

    /// A fault that Provost works in spite of.
    pub fn warn(name: &str, message: impl Into<String>, hint: &str) -> Self {
        Self::new(name, CheckStatus::Warn, message, hint)
    }

    /// A fault that keeps Provost or its agents from working: `provost doctor` ends with an error.
    pub fn fail(name: &str, message: impl Into<String>, hint: &str) -> Self {
        Self::new(name, CheckStatus::Fail, message, hint)
    }

    /// Adds a fix to a finding. Its hint is replaced by the one to run `provost doctor --fix`.
    pub fn cure(mut self, cure: impl FnOnce(&Home) -> io::Result<String> + Send + 'static) -> Self {
        self.fixable = true;
        self.cure = Some(Box::new(cure));
        self.hint = Some("Run `provost doctor --fix`.".to_owned());
        self
    }
}

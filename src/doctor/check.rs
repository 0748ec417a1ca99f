//! One line of the doctor's output: what was found, and what fixes it.

use std::io;

use serde::Serialize;

pub use crate::api::commands::CheckStatus;
use crate::home::Home;

/// What was checked, and the result.
#[derive(Serialize)]
pub struct Check {
    pub name: String,
    pub status: CheckStatus,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// `doctor --fix` can fix it.
    pub fixable: bool,
    /// It was fixed just now.
    pub fixed: bool,
    #[serde(skip)]
    pub cure: Option<Fix>,
}

/// Proves a finding again and fixes it; returns what was done. The home's lock is held meanwhile.
type Fix = Box<dyn FnOnce(&Home) -> io::Result<String> + Send>;

impl Check {
    /// An empty hint is none.
    fn new(name: &str, status: CheckStatus, message: impl Into<String>, hint: &str) -> Self {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        let (name, message) = (name.to_owned(), message.into());
        Self { name, status, message, hint, fixable: false, fixed: false, cure: None }
    }

    pub fn ok(name: &str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Ok, message, "")
    }

    pub fn note(name: &str, message: impl Into<String>, hint: &str) -> Self {
        Self::new(name, CheckStatus::Note, message, hint)
    }

    pub fn warn(name: &str, message: impl Into<String>, hint: &str) -> Self {
        Self::new(name, CheckStatus::Warn, message, hint)
    }

    pub fn fail(name: &str, message: impl Into<String>, hint: &str) -> Self {
        Self::new(name, CheckStatus::Fail, message, hint)
    }

    pub fn cure(mut self, cure: impl FnOnce(&Home) -> io::Result<String> + Send + 'static) -> Self {
        self.fixable = true;
        self.cure = Some(Box::new(cure));
        self.hint = Some("Run `provost doctor --fix`.".to_owned());
        self
    }
}

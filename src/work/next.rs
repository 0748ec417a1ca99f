//! `getNextTask`: the next task to do, and what a worker needs to know about it.

use super::queue::Readiness;
use crate::api::brief::{Brief, Prompt};
use crate::api::worker::next::{GetNextTaskInput, TaskState};

/// How many tasks after the first are shown.
pub const PREVIEWS: usize = 5;

impl From<Readiness> for TaskState {
    fn from(readiness: Readiness) -> Self {
        match readiness {
            Readiness::Ready => Self::Ready,
            Readiness::Blocked => Self::Blocked,
            Readiness::Taken => Self::InProgress,
        }
    }
}

impl GetNextTaskInput {
    /// The part of a brief's prompt that the call asks for; `None`: the call asks for none, or the brief has
    /// none. If the prompt does not describe the work, `description` (the task's own words) does.
    pub fn prompt(&self, brief: &Brief, description: &str) -> Option<Prompt> {
        let whole =
            brief.super_detailed_prompt.clone().filter(|_| self.include_detailed_prompt.0)?;
        let mut prompt = Prompt {
            description: whole.description.or_else(|| Some(description.to_owned())),
            estimated_hours: brief.hours(),
            files: whole.files.or_else(|| Some(crate::api::brief::Files::default())),
            ..whole
        };
        if !self.include_context.0 {
            prompt.context = None;
            prompt.design_references.clear();
        }
        if !self.include_related_files.0 {
            prompt.files = None;
        }
        Some(prompt)
    }
}

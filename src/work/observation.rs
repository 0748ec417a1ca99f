//! `reportObservation` in its full and its short form: what a worker found beside its task.

use crate::api::worker::issue::Level;
use crate::api::worker::observation::{
    NewTaskDetails, ObservationDetails, ObservationType, ReportObservationInput,
};
use crate::api::worker::path;
use crate::api::worker::ticket::Urgency;
use provost_actors::refusal::{Code, Refusal};
use serde_json::json;

/// An observation in terms that both forms share.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub text: &'a str,
    /// The task that the worker was on.
    pub task: Option<&'a str>,
    /// Another task that the observation concerns.
    pub related: Option<&'a str>,
    /// The worker's own word for what it found.
    pub category: Option<String>,
    pub severity: Urgency,
    pub details: Option<&'a ObservationDetails>,
    pub new_task: Option<&'a NewTaskDetails>,
    /// Set by the full form, which has an answer of its own; `None`: the short form.
    pub kind: Option<ObservationType>,
}

impl ReportObservationInput {
    /// What the call says, in whichever form. The schema has already refused calls that mix both forms or
    /// have a part of the full one. Refuses paths that lead out of the repository, and a wish for a new task
    /// without its details.
    pub fn read(&self) -> Result<Observed<'_>, Refusal> {
        let (Some(task), Some(kind), Some(severity)) = (&self.task_id, self.kind, self.severity)
        else {
            return self.short();
        };
        let files = self.attached_files.iter().flat_map(|files| files.iter());
        path::check_all("attachedFiles", files.map(|file| &**file))?;
        let is_asked_for = self.create_new_task.unwrap_or_default();
        if is_asked_for && self.new_task_details.is_none() {
            return Err(Refusal::new(
                Code::MissingRequired,
                "createNewTask = true needs `newTaskDetails`",
            )
            .hint("Call reportObservation again with newTaskDetails, a title and a priority.")
            .detail("path", "newTaskDetails"));
        }
        Ok(Observed {
            text: &self.observation,
            task: Some(task),
            related: self.related_to_task.as_deref(),
            category: json!(kind).as_str().map(str::to_owned),
            severity,
            details: self.details.as_ref(),
            new_task: self.new_task_details.as_ref().filter(|_| is_asked_for),
            kind: Some(kind),
        })
    }

    fn short(&self) -> Result<Observed<'_>, Refusal> {
        if let Some(file) = &self.file_path {
            path::check("file_path", file)?;
        }
        Ok(Observed {
            text: &self.observation,
            task: self.short_task_id.as_deref(),
            related: None,
            category: json!(self.category).as_str().map(str::to_owned),
            severity: self.priority.map_or(Urgency::Medium, Level::urgency),
            details: None,
            new_task: None,
            kind: None,
        })
    }
}

impl Observed<'_> {
    /// Whether a person should see it at once.
    pub fn is_alert(&self) -> bool {
        self.severity == Urgency::Critical
    }

    /// The description of the task that is made of the observation.
    pub fn description(&self) -> String {
        let details = self.details.map(|details| {
            [
                ("What", &details.what),
                ("Why", &details.why),
                ("Impact", &details.impact),
                ("Suggested", &details.suggested_action),
            ]
        });
        let lines = details.into_iter().flatten().filter(|(_, text)| !text.is_empty());
        let lines = lines.map(|(name, text)| format!("\n{name}: {}", &**text));
        std::iter::once(self.text.to_owned()).chain(lines).collect()
    }
}

//! `reportObservation`, in both of its forms: what a worker found beside its task.

use provost_actors::event::Timestamp;
use provost_actors::refusal::{Code, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::issue::Level;
use super::note::NewTaskCreated;
use super::path;
use super::question::LateAnswer;
use super::ticket::Urgency;
use crate::args::{List, Quantity, Text};

pub const REPORT_OBSERVATION: &str = "\
Use when: you found something that others should know or do, beside your task.
Required: observation; with taskId also type and severity.
Optional: details, relatedToTask, createNewTask, newTaskDetails, attachedFiles, references; or \
category, priority, task_id, file_path; project_id, request_id.
Next: go on with your task; newTaskCreated says what became a task.
Avoid: it for what blocks you (reportIssue).";

/// The fields of the full form, and those of the short one. No call has both.
pub const FULL: &[&str] = &[
    "taskId",
    "type",
    "severity",
    "details",
    "relatedToTask",
    "createNewTask",
    "newTaskDetails",
    "attachedFiles",
    "references",
];
pub const SHORT: &[&str] = &["category", "priority", "task_id", "file_path"];
/// What the full form can't do without.
pub const FULL_NEEDS: &[&str] = &["taskId", "type", "severity"];

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportObservationInput {
    /// What you found, in a sentence or two.
    pub observation: Text<1, 1000>,
    /// Full: its task, TASK-001 or a UUID.
    pub task_id: Option<Text<1, 64>>,
    /// Full: discovery, issue, improvement, dependency, test-failure or
    /// architecture-concern.
    #[serde(rename = "type")]
    pub kind: Option<ObservationType>,
    /// Full: critical alerts a person.
    pub severity: Option<Urgency>,
    /// Full: what there is to say of it.
    pub details: Option<ObservationDetails>,
    /// Full: another task, TASK-001 or a UUID.
    pub related_to_task: Option<Text<1, 64>>,
    /// Full: true makes newTaskDetails a task.
    pub create_new_task: Option<bool>,
    /// Full: the task to be made.
    pub new_task_details: Option<NewTaskDetails>,
    /// Full: files that show it, by their paths.
    pub attached_files: Option<List<Text<1, 1024>, 0, 100>>,
    /// Full: links and other sources.
    pub references: Option<List<Text<1, 2000>, 0, 100>>,
    /// Short: what kind it is.
    pub category: Option<Category>,
    /// Short: 1 (alerts a person), 2 or 3 (default).
    pub priority: Option<Level>,
    /// Short: its task, TASK-001 or a UUID.
    #[serde(rename = "task_id")]
    pub short_task_id: Option<Text<1, 64>>,
    /// Short: the file that it is about, by its path.
    #[serde(rename = "file_path")]
    pub file_path: Option<Text<1, 1024>>,
    /// Project id; by default yours.
    #[serde(rename = "project_id")]
    pub project_id: Option<Text<1, 64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObservationType {
    Discovery,
    Issue,
    Improvement,
    Dependency,
    TestFailure,
    ArchitectureConcern,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    Optimization,
    PotentialBug,
    StyleNote,
    DocsImprovement,
    #[default]
    Other,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservationDetails {
    /// What it is.
    pub what: Text<0, 5000>,
    /// Why it is so.
    pub why: Text<0, 5000>,
    /// What follows from it.
    pub impact: Text<0, 5000>,
    /// What to do about it.
    pub suggested_action: Text<0, 5000>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTaskDetails {
    /// What is to be done, in a line.
    pub title: Text<1, 1000>,
    /// critical, high, medium or low.
    pub priority: Urgency,
    /// In hours.
    pub estimated_hours: Option<Quantity<0, 100_000>>,
}

/// An observation in the words that both forms come to.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    pub text: &'a str,
    pub task: Option<&'a str>,
    pub related: Option<&'a str>,
    /// The worker's word for what it is.
    pub category: Option<&'static str>,
    pub severity: Urgency,
    pub details: Option<&'a ObservationDetails>,
    pub new_task: Option<&'a NewTaskDetails>,
    /// Whether a person is to see it at once.
    pub is_alert: bool,
    pub form: Form,
}

/// Which form a call has, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Full(ObservationType),
    Short,
}

impl ReportObservationInput {
    /// Which form it has, and what it says. Fields of both forms, or a part of the full
    /// one's, have been refused before.
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
            category: Some(kind.as_str()),
            severity,
            details: self.details.as_ref(),
            new_task: self.new_task_details.as_ref().filter(|_| is_asked_for),
            is_alert: severity == Urgency::Critical,
            form: Form::Full(kind),
        })
    }

    fn short(&self) -> Result<Observed<'_>, Refusal> {
        if let Some(file) = &self.file_path {
            path::check("file_path", file)?;
        }
        let level = self.priority.unwrap_or(Level::Three);
        Ok(Observed {
            text: &self.observation,
            task: self.short_task_id.as_deref(),
            related: None,
            category: self.category.map(Category::as_str),
            severity: level.urgency(),
            details: None,
            new_task: None,
            is_alert: level == Level::One,
            form: Form::Short,
        })
    }
}

impl ObservationType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::Issue => "issue",
            Self::Improvement => "improvement",
            Self::Dependency => "dependency",
            Self::TestFailure => "test-failure",
            Self::ArchitectureConcern => "architecture-concern",
        }
    }
}

impl Category {
    fn as_str(self) -> &'static str {
        match self {
            Self::Optimization => "optimization",
            Self::PotentialBug => "potential_bug",
            Self::StyleNote => "style_note",
            Self::DocsImprovement => "docs_improvement",
            Self::Other => "other",
        }
    }
}

impl Observed<'_> {
    /// The description of the task that is made of it.
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

/// The answer to either form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReportObservationOutput {
    Full(FullOutput),
    Short(ShortOutput),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FullOutput {
    /// true.
    pub success: bool,
    /// What it is called: OBS-001.
    pub observation_id: String,
    /// As it was given.
    pub observation: String,
    /// As it was given.
    #[serde(rename = "type")]
    pub kind: ObservationType,
    /// As it was given.
    pub severity: Urgency,
    /// logged or task-created.
    pub status: ObservationStatus,
    /// The task that was made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_task_created: Option<NewTaskCreated>,
    /// What people are shown of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard_alert: Option<DashboardAlert>,
    /// The alert that waits for a person: TK-001.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_ticket: Option<String>,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObservationStatus {
    Logged,
    TaskCreated,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DashboardAlert {
    /// What it is, in a line.
    pub message: String,
    /// Since when, RFC 3339 UTC.
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// Whether it is to be seen: on the board, or among the alerts.
    pub visible: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShortOutput {
    /// true.
    pub logged: bool,
    /// What it is called: OBS-001.
    pub observation_id: String,
    /// Answers to your questions that came since you last called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LateAnswer>,
}

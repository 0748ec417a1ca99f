//! `reportObservation`.

use crate::api::prelude::*;
use crate::api::worker::issue::Level;

/// The description of `reportObservation`, by which a model decides whether to call it.
pub const REPORT_OBSERVATION: &str = "\
Use when: you found something that others should know or do, beside your task.
Required: observation; with taskId also type and severity.
Optional: details, relatedToTask, createNewTask, newTaskDetails, attachedFiles, references; or \
category, priority, task_id, file_path; project_id, request_id.
Next: continue your task; newTaskCreated names the task created from it.
Avoid: using it for problems that block you (reportIssue).";

/// The fields of the full form; no call has fields of both forms.
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

/// The fields of the short form.
pub const SHORT: &[&str] = &["category", "priority", "task_id", "file_path"];

/// The fields that the full form requires.
pub const FULL_NEEDS: &[&str] = &["taskId", "type", "severity"];

#[apply(camel_input)]
pub struct ReportObservationInput {
    /// What you found, in a sentence or two.
    pub observation: Text<1, 1000>,
    /// Full: its task, TASK-001 or a UUID.
    pub task_id: Option<Text<1, 64>>,
    /// Full: discovery, issue, improvement, dependency, test-failure or architecture-concern.
    #[serde(rename = "type")]
    pub kind: Option<ObservationType>,
    /// Full: critical alerts a person.
    pub severity: Option<Priority>,
    /// Full: more about it.
    pub details: Option<ObservationDetails>,
    /// Full: another task, TASK-001 or a UUID.
    pub related_to_task: Option<Text<1, 64>>,
    /// Full: true makes newTaskDetails a task.
    pub create_new_task: Option<bool>,
    /// Full: the task to create.
    pub new_task_details: Option<NewTaskDetails>,
    /// Full: paths of files that show it.
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
    /// Short: path of the related file.
    #[serde(rename = "file_path")]
    pub file_path: Option<Text<1, 1024>>,
    pub project_id: Option<ProjectName>,
}

#[apply(hyphened_word)]
pub enum ObservationType {
    Discovery,
    Issue,
    Improvement,
    Dependency,
    TestFailure,
    ArchitectureConcern,
}

#[apply(word)]
#[derive(Default)]
pub enum Category {
    Optimization,
    PotentialBug,
    StyleNote,
    DocsImprovement,
    #[default]
    Other,
}

#[apply(camel_input)]
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

#[apply(camel_input)]
pub struct NewTaskDetails {
    pub title: Text<1, 1000>,
    pub priority: Priority,
    pub estimated_hours: Option<Quantity<0, 100_000>>,
}

/// The answer to either form.
#[apply(data)]
#[serde(untagged)]
pub enum ReportObservationOutput {
    Full(FullOutput),
    Short(ShortOutput),
}

#[apply(camel_output)]
pub struct FullOutput {
    pub success: bool,
    pub observation_id: String,
    /// As given.
    pub observation: String,
    #[serde(rename = "type")]
    pub kind: ObservationType,
    pub severity: Priority,
    pub status: ObservationStatus,
    /// The task created from it.
    pub new_task_created: Option<NewTaskCreated>,
    /// The alert shown to people.
    pub dashboard_alert: Option<DashboardAlert>,
    pub alert_ticket: Option<String>,
    pub answers: Vec<LateAnswer>,
}

#[apply(hyphened_word)]
pub enum ObservationStatus {
    Logged,
    TaskCreated,
}

#[apply(output)]
pub struct DashboardAlert {
    /// What it is, in a line.
    pub message: String,
    /// Since when, RFC 3339 UTC.
    pub timestamp: Timestamp,
    /// Whether it is shown on the board or among the alerts.
    pub visible: bool,
}

#[apply(output)]
pub struct ShortOutput {
    pub logged: bool,
    pub observation_id: String,
    pub answers: Vec<LateAnswer>,
}

/// A task that was made of it.
#[apply(camel_output)]
pub struct NewTaskCreated {
    pub task_id: String,
    pub title: String,
    pub priority: Priority,
    pub added_to_queue: bool,
    /// Its place among the ready tasks.
    pub position: String,
}

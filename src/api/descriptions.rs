//! Descriptions of fields that several tools share, for fields that have no description of their own. Pure.

use schemars::Schema;
use serde_json::{Map, Value};

/// The name of a field in JSON, and its description.
pub type FieldLine = (&'static str, &'static str);

/// Fields that the tools of the board take.
pub const BOARD_INPUTS: &[FieldLine] = &[
    ("attempt_id", "UUID from list_task_attempts."),
    ("cursor", "Older page: next_cursor of the last answer."),
    ("path", "Absolute path of a git repository's working tree."),
    ("project_id", "UUID from list_projects."),
    ("target_branch", "Branch that attempts start from; else the one checked out."),
    ("task_id", "The task: UUID or handle."),
];

/// Fields that the tools of the worker API take.
pub const WORKER_INPUTS: &[FieldLine] = &[
    ("estimatedHours", "In hours."),
    ("item", "The item checked."),
    ("project_id", "Project, a UUID or a name; by default yours."),
    ("task_id", "TASK-001 or a UUID."),
    ("taskId", "TASK-001 or a UUID."),
    ("title", "The work in a line."),
];

/// Fields that tools return.
pub const OUTPUTS: &[FieldLine] = &[
    ("acknowledged", "true."),
    ("addedToQueue", "true."),
    ("alertTicket", "The alert that waits for a person: TK-001."),
    ("alert_ticket", "The alert that waits for a person: TK-001."),
    ("answer", "The answer."),
    ("answers", "Answers to your questions since your last call."),
    ("approval_id", "Id of the approval, a UUID."),
    ("attempt_id", "Id of the attempt, a UUID."),
    ("blocked", "Whether the content is withheld, for blocked_reason."),
    ("created_at", "When it was created."),
    ("exit_code", "Exit code; null while it runs or after a signal."),
    ("exit_signal", "Number of the signal that ended it, or null."),
    ("handle", "The task's handle: TASK-001."),
    ("has_more", "Whether there are more."),
    ("hint", "The next useful call, or null."),
    ("host", "Its host; null: none yet."),
    ("latest_execution_process_id", "Its latest process, a UUID; null before the first."),
    ("latest_session_executor", "Executor of that session."),
    ("latest_session_id", "Its latest session, a UUID; null if it has none yet."),
    ("logged", "true."),
    ("nearest", "The passages that match the question best, five at most."),
    ("next_cursor", "Cursor of the next page; null on the last."),
    ("observationId", "Its handle: OBS-001."),
    ("observation_id", "Its handle: OBS-001."),
    ("priority", "critical, high, medium or low."),
    ("project_id", "Id of the project, a UUID."),
    ("questionId", "The question, Q-001."),
    ("queued_follow_ups", "How many follow-ups wait."),
    ("reason", "Why it was denied; null unless it was."),
    ("repo_id", "Id of the repository, a UUID."),
    ("repo_name", "Name of the repository."),
    ("session_id", "Id of the session, a UUID."),
    ("success", "true."),
    ("task_id", "Id of the task, a UUID."),
    ("taskId", "Its handle: TASK-001."),
    ("title", "The work in a line."),
    ("updated_at", "When it last changed."),
    ("warnings", "Contradictions within the report, or with the worktree."),
    ("workspace_branch", "Git branch that the attempt works on."),
    ("worktree", "Path of its worktree; of several, by repository."),
];

/// Describes the properties of an object that have no description: by their names in `known`, or else by the
/// words that they may be.
pub fn describe(schema: &mut Schema, known: &[FieldLine]) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        // `true` is a schema that admits any value; a description needs an object.
        if *property == Value::Bool(true) {
            *property = Value::Object(Map::new());
        }
        let Some(property) = property.as_object_mut() else { continue };
        if property.contains_key("description") {
            continue;
        }
        let line = known.iter().find(|(known, _)| known == name);
        let words = || {
            let words = property.get("enum")?.as_array()?.iter().filter_map(Value::as_str);
            let words: Vec<&str> = words.collect();
            let (last, others) = words.split_last()?;
            Some(format!("{} or {last}.", others.join(", ")))
        };
        if let Some(means) = line.map(|(_, means)| (*means).to_owned()).or_else(words) {
            property.insert("description".to_owned(), means.into());
        }
    }
}

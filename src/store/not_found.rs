//! Refusals of calls that name something that does not exist, or does not exist yet.

use std::fmt;

use super::{Code, Refusal};
use provost_actors::ids::{AttemptId, ProjectId, SessionId};

/// No project on the board has this id; it may have been removed.
pub fn project(project: ProjectId) -> Refusal {
    Refusal::new(Code::ProjectNotFound, format!("there is no project {project}"))
        .detail("project_id", project.to_string())
}

/// No task has this id or handle.
pub fn task(task: impl fmt::Display) -> Refusal {
    Refusal::new(Code::TaskNotFound, format!("there is no task {task}"))
        .detail("task_id", task.to_string())
}

/// The task of an attempt was deleted: the attempt stays readable, but begins no turn.
pub fn task_of(attempt: AttemptId) -> Refusal {
    let message =
        format!("the task of attempt {attempt} was deleted, so its agent takes no prompt");
    Refusal::new(Code::TaskNotFound, message)
        .hint(format!(
            "Call get_attempt_changes with attempt_id = \"{attempt}\" instead. What it made stays \
             readable; create_task and start_task_attempt begin anew."
        ))
        .detail("attempt_id", attempt.to_string())
}

/// No attempt has this id.
pub fn attempt(attempt: AttemptId) -> Refusal {
    Refusal::new(Code::AttemptNotFound, format!("there is no attempt {attempt}"))
        .detail("attempt_id", attempt.to_string())
}

/// No session has this id.
pub fn session(session: SessionId) -> Refusal {
    Refusal::new(Code::SessionNotFound, format!("there is no session {session}"))
        .detail("session_id", session.to_string())
}

/// The attempt exists, and its first session does not yet.
pub fn no_session_yet(attempt: AttemptId) -> Refusal {
    Refusal::new(Code::NoSessionYet, format!("attempt {attempt} has no session yet"))
        .detail("attempt_id", attempt.to_string())
}

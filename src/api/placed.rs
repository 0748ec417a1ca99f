//! Where a call is carried out when several hosts share the board: on any of them, which answers it from
//! rows, or on the host of the attempt that it is about. Pure.

use serde_json::{Map, Value};

/// What a call is about, by the id that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    Attempt(&'a str),
    Session(&'a str),
    Approval(&'a str),
    /// The last run of checks of a task.
    ChecksOf(&'a str),
}

/// What a call needs of an attempt at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Its processes or its approvals.
    Host,
    /// Its log: where its host is lost, the board's copy is read.
    Log,
    /// Its files, to read them: where its host is away, as the board has them.
    Files,
    /// Its worktrees: a host that has none gets them.
    Worktrees,
    /// Its worktrees, on a host that runs attempts: a turn may begin.
    Turn,
    /// A host that has the repository itself, whose branches or remotes are to be changed.
    Repository,
}

/// What becomes of a call about an attempt that no host has, whose next turn waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplaced {
    /// Rows answer it.
    Answered,
    /// It ends the waiting: any host does that.
    Stops,
    /// It is taken where the attempt is to run.
    Placed,
    /// It has to wait.
    Refused,
}

/// Where a call is carried out. `None`: any host answers it from rows, and asks another host for what it reads
/// there. Else the host of its attempt does: by the call's `action`, what that host needs, and what becomes of an
/// attempt that no host has.
pub type Placed = Option<fn(action: &str) -> (Needs, Unplaced)>;

pub const ROWS: Placed = None;
pub const STOP: Placed = Some(|_| (Needs::Host, Unplaced::Stops));
pub const HOST: Placed = Some(|_| (Needs::Host, Unplaced::Refused));
pub const LOG: Placed = Some(|_| (Needs::Log, Unplaced::Answered));
pub const SHELL: Placed = Some(|_| (Needs::Host, Unplaced::Answered));
pub const WORKTREES: Placed = Some(|_| (Needs::Worktrees, Unplaced::Refused));
pub const FOLLOW_UP: Placed = Some(|action| match action {
    "send" => (Needs::Turn, Unplaced::Refused),
    "cancel" => (Needs::Worktrees, Unplaced::Placed),
    _ => (Needs::Turn, Unplaced::Placed),
});
pub const COMMENTS: Placed = Some(|action| match action {
    "list" => (Needs::Files, Unplaced::Answered),
    _ => (Needs::Turn, Unplaced::Placed),
});
pub const FINISH: Placed = Some(|action| match action {
    "merge" | "push" | "create_pr" => (Needs::Repository, Unplaced::Refused),
    _ => (Needs::Worktrees, Unplaced::Refused),
});

/// What a call is about; `None`: its arguments name nothing that a host has.
pub fn about(arguments: &Map<String, Value>) -> Option<Subject<'_>> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let in_page = || arguments.get("page")?.get("attempt_id")?.as_str();
    let attempt = text("attempt_id").or_else(in_page).map(Subject::Attempt);
    let session = || text("session_id").map(Subject::Session);
    let approval = || text("approval_id").map(Subject::Approval);
    attempt.or_else(session).or_else(approval).or_else(|| text("task_id").map(Subject::ChecksOf))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_changes_branches_needs_the_repository_and_what_reads_files_moves_nothing() {
        let needs = |placed: Placed, action| placed.unwrap()(action).0;
        assert_eq!(needs(FINISH, "merge"), Needs::Repository);
        assert_eq!(needs(FINISH, "commit"), Needs::Worktrees);
        assert_eq!(needs(FOLLOW_UP, "send"), Needs::Turn);
        assert_eq!(needs(FOLLOW_UP, "cancel"), Needs::Worktrees);
        assert_eq!(needs(COMMENTS, "list"), Needs::Files);
        assert_eq!(needs(STOP, ""), Needs::Host);
    }

    #[test]
    fn a_call_that_would_be_refused_takes_an_attempt_to_no_host() {
        let meets = |placed: Placed, action| placed.unwrap()(action).1;
        for (placed, action) in [(FOLLOW_UP, "send"), (FINISH, "merge"), (HOST, "")] {
            assert_eq!(meets(placed, action), Unplaced::Refused);
        }
        assert_eq!(meets(FOLLOW_UP, "queue"), Unplaced::Placed);
        assert_eq!(meets(COMMENTS, "list"), Unplaced::Answered);
        assert_eq!(meets(STOP, ""), Unplaced::Stops);
    }

    #[test]
    fn a_call_is_about_what_it_names() {
        let of = |arguments: Value| {
            let found = about(arguments.as_object().unwrap());
            found.map(|it| format!("{it:?}"))
        };
        let both = json!({"session_id": "s", "attempt_id": "a"});
        assert_eq!(of(both).as_deref(), Some("Attempt(\"a\")"));
        assert_eq!(of(json!({"session_id": "s"})).as_deref(), Some("Session(\"s\")"));
        assert_eq!(of(json!({"approval_id": "v"})).as_deref(), Some("Approval(\"v\")"));
        let page = json!({"page": {"attempt_id": "a"}, "wait_ms": 1});
        assert_eq!(of(page).as_deref(), Some("Attempt(\"a\")"));
        let log = json!({"task_id": "t", "name": "n"});
        assert_eq!(of(log).as_deref(), Some("ChecksOf(\"t\")"));
        // The answer to a question is a row; its courier is the asker's host.
        assert_eq!(of(json!({"question_id": "q", "answer": "x"})), None);
    }
}

//! Where a call is carried out when several hosts share the board: on any of them, which answers from rows,
//! or on the host of the attempt that the call is about. Pure.

use serde_json::{Map, Value};

/// What a call is about, by the id in its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    Attempt(&'a str),
    Session(&'a str),
    Approval(&'a str),
    /// The last check run of a task.
    ChecksOf(&'a str),
}

/// What a call needs of an attempt that is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Its processes or approvals, so its own host.
    Host,
    /// Its log. If its host is lost, the board's copy of the log is read.
    Log,
    /// Its files, for reading. If its host is away, the board's copies are read.
    Files,
    /// Its worktrees. A host without them gets them.
    Worktrees,
    /// Its worktrees on a host that runs attempts, because a turn may begin.
    Turn,
    /// A host with the repository itself, because its branches or remotes change.
    Repository,
}

/// What happens to a call about an attempt that no host has, whose next turn waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplaced {
    /// Any host answers it from rows.
    Answered,
    /// The call ends the waiting; any host can do that.
    Stops,
    /// The attempt gets a host first, and that host carries out the call.
    Placed,
    /// The call is refused, and can be made later.
    Refused,
}

/// Where a call is carried out. `None`: any host answers it from rows, and asks other hosts for what it reads
/// there. Otherwise the host of the attempt carries it out. The function gives, for the call's `action`, what
/// that host must have, and what happens if no host has the attempt.
pub type Placed = Option<fn(action: &str) -> (Needs, Unplaced)>;

/// Any host answers.
pub const ROWS: Placed = None;
/// The host of the attempt; a waiting attempt is stopped by any host.
pub const STOP: Placed = Some(|_| (Needs::Host, Unplaced::Stops));
/// The host of the attempt.
pub const HOST: Placed = Some(|_| (Needs::Host, Unplaced::Refused));
/// A host that can read the log.
pub const LOG: Placed = Some(|_| (Needs::Log, Unplaced::Answered));
/// The host of the attempt; rows answer while no host has the attempt.
pub const SHELL: Placed = Some(|_| (Needs::Host, Unplaced::Answered));
/// A host with the worktrees.
pub const WORKTREES: Placed = Some(|_| (Needs::Worktrees, Unplaced::Refused));
/// A turn begins where the attempt is or will be. Only `send`, which begins a turn at once, is refused while
/// no host has the attempt.
pub const FOLLOW_UP: Placed = Some(|action| match action {
    "send" => (Needs::Turn, Unplaced::Refused),
    "cancel" => (Needs::Worktrees, Unplaced::Placed),
    _ => (Needs::Turn, Unplaced::Placed),
});
/// Comments are rows on lines of files; a submit begins a turn.
pub const COMMENTS: Placed = Some(|action| match action {
    "submit" => (Needs::Turn, Unplaced::Placed),
    _ => (Needs::Files, Unplaced::Answered),
});
/// What changes branches or remotes needs the repository itself.
pub const FINISH: Placed = Some(|action| match action {
    "merge" | "push" | "create_pr" => (Needs::Repository, Unplaced::Refused),
    _ => (Needs::Worktrees, Unplaced::Refused),
});

/// What the arguments of a call are about; `None`: they name nothing that a host has.
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
        assert_eq!(needs(COMMENTS, "add"), Needs::Files);
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
        assert_eq!(meets(COMMENTS, "add"), Unplaced::Answered);
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

//! Which calls only the host of an attempt can answer: it has the attempt's worktrees, its log and
//! its processes. Any daemon answers all others from rows. Pure.

use serde_json::{Map, Value};

/// What a call is about, by the id that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    Attempt(&'a str),
    Session(&'a str),
    Approval(&'a str),
    /// The last run of checks of a task.
    ChecksOf(&'a str),
}

/// The tools and methods that ask the owner of an attempt, or read what only its host has. Reads that
/// pages make too are not here: whatever calls them, they ask the host themselves.
const OF_ITS_HOST: [&str; 11] = [
    "follow_up",
    "comment_on_changes",
    "stop_attempt",
    "finish_attempt",
    "answer",
    "respond_approval",
    "provost/next_log_page",
    "provost/environment",
    "provost/preview",
    "provost/discard",
    "provost/check_log",
];

/// The method that says where a branch is in the repository of a host.
pub const BASE: &str = "provost/base";

/// Those that only read: of an attempt that no host has, any daemon answers them.
const READS: [&str; 2] = ["provost/next_log_page", "provost/environment"];

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

/// What becomes of a call about an attempt that no host has. What would be refused in the end takes the
/// attempt to no host before.
pub fn unplaced(call: &str, arguments: &Map<String, Value>) -> Unplaced {
    let action = arguments.get("action").and_then(Value::as_str).unwrap_or_default();
    match (call, action) {
        ("stop_attempt", _) => Unplaced::Stops,
        ("follow_up", "send") => Unplaced::Refused,
        ("comment_on_changes", "list") => Unplaced::Answered,
        ("follow_up" | "comment_on_changes", _) => Unplaced::Placed,
        _ if !OF_ITS_HOST.contains(&call) || READS.contains(&call) => Unplaced::Answered,
        _ => Unplaced::Refused,
    }
}

/// What the call is about, if it needs the host that has that.
pub fn about<'a>(call: &str, arguments: &'a Map<String, Value>) -> Option<About<'a>> {
    if !OF_ITS_HOST.contains(&call) {
        return None;
    }
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    if call == "provost/check_log" {
        return text("task_id").map(About::ChecksOf);
    }
    let in_page = || arguments.get("page")?.get("attempt_id")?.as_str();
    let attempt = text("attempt_id").or_else(in_page).map(About::Attempt);
    let session = || text("session_id").map(About::Session);
    attempt.or_else(session).or_else(|| text("approval_id").map(About::Approval))
}

/// What a call needs of an attempt at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Its log, its processes or its approvals.
    Host,
    /// Its files, to read them: where its host is away, as the board has them.
    Files,
    /// Its worktrees: a host that has none gets them.
    Worktrees,
    /// Its worktrees, on a host that runs attempts: a turn may begin.
    Turn,
    /// A host that has the repository itself, whose branches or remotes are to be changed.
    Repository,
}

/// What the call needs.
pub fn needs(call: &str, arguments: &Map<String, Value>) -> Needs {
    let action = arguments.get("action").and_then(Value::as_str).unwrap_or_default();
    match call {
        "finish_attempt" if ["merge", "push", "create_pr"].contains(&action) => Needs::Repository,
        "follow_up" if action != "cancel" => Needs::Turn,
        "comment_on_changes" if action == "list" => Needs::Files,
        "comment_on_changes" => Needs::Turn,
        "follow_up" | "finish_attempt" | "provost/preview" | "provost/discard" => Needs::Worktrees,
        "provost/comments"
        | "provost/blob"
        | "get_attempt_changes"
        | "get_attempt_patch"
        | "get_attempt_file" => Needs::Files,
        _ => Needs::Host,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn about(call: &str, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        super::about(call, &arguments).map_or_else(String::new, |it| format!("{it:?}"))
    }

    #[test]
    fn what_changes_branches_needs_the_repository_and_what_reads_files_moves_nothing() {
        let needs = |call, action| needs(call, json!({"action": action}).as_object().unwrap());
        assert_eq!(needs("finish_attempt", "merge"), Needs::Repository);
        assert_eq!(needs("follow_up", "send"), Needs::Turn);
        assert_eq!(needs("follow_up", "cancel"), Needs::Worktrees);
        assert_eq!(needs("finish_attempt", "commit"), Needs::Worktrees);
        assert_eq!(needs("get_attempt_changes", ""), Needs::Files);
        assert_eq!(needs("comment_on_changes", "list"), Needs::Files);
        assert_eq!(needs("stop_attempt", ""), Needs::Host);
        assert_eq!(needs("tail_attempt_logs", ""), Needs::Host);
    }

    #[test]
    fn a_call_needs_the_host_of_what_it_names_unless_rows_answer_it() {
        assert_eq!(about("stop_attempt", json!({"attempt_id": "a"})), "Attempt(\"a\")");
        assert_eq!(about("follow_up", json!({"session_id": "s"})), "Session(\"s\")");
        let both = json!({"session_id": "s", "attempt_id": "a"});
        assert_eq!(about("follow_up", both), "Attempt(\"a\")");
        assert_eq!(about("answer", json!({"approval_id": "v"})), "Approval(\"v\")");
        let page = json!({"page": {"attempt_id": "a"}, "wait_ms": 1});
        assert_eq!(about("provost/next_log_page", page), "Attempt(\"a\")");
        let log = json!({"task_id": "t", "name": "n"});
        assert_eq!(about("provost/check_log", log), "ChecksOf(\"t\")");
        for of_rows in ["get_attempt_status", "wait_for_attempts", "tail_session_messages"] {
            assert_eq!(about(of_rows, json!({"attempt_id": "a"})), "", "{of_rows}");
        }
        let meets =
            |call, action: &str| unplaced(call, json!({"action": action}).as_object().unwrap());
        let of_any = OF_ITS_HOST.into_iter().filter(|call| meets(call, "") == Unplaced::Answered);
        assert_eq!(of_any.collect::<Vec<_>>(), READS);
        assert_eq!(meets("get_attempt_status", ""), Unplaced::Answered);
        assert_eq!(meets("stop_attempt", ""), Unplaced::Stops);
        assert_eq!(meets("follow_up", "queue"), Unplaced::Placed);
        for (call, action) in [("follow_up", "send"), ("finish_attempt", "merge")] {
            assert_eq!(meets(call, action), Unplaced::Refused);
        }
        // The answer to a question is a row; its courier is the asker's host.
        assert_eq!(about("answer", json!({"question_id": "q", "answer": "x"})), "");
    }
}

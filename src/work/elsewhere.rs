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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn about(call: &str, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        super::about(call, &arguments).map_or_else(String::new, |it| format!("{it:?}"))
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
        // The answer to a question is a row; its courier is the asker's host.
        assert_eq!(about("answer", json!({"question_id": "q", "answer": "x"})), "");
    }
}

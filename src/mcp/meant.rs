//! What callers mean by words that are not ours: names of tools, fields and
//! values, by likeness and by what other systems call the same thing. Pure.

use provost_actors::nearest::{nearest, snake_case};

/// Whole names of tools, and then single words in one, for which a tool stands.
/// A line whose tool does not exist is passed over.
const TOOLS: &[(&str, &[&str])] = &[
    ("get_attempt_status", &["get_task_attempt", "get_attempt", "check_attempt", "show_attempt"]),
    ("update_task", &["update_status", "set_status", "set_task_status", "complete_task"]),
    ("start_task_attempt", &["run_task", "start_task", "execute_task", "run_attempt", "run"]),
    ("list_repos", &["list_repositories", "get_repos"]),
    ("list_task_attempts", &["list_attempts", "get_attempts", "get_task_attempts"]),
    ("create_task", &["add_task", "new_task"]),
    ("create_project", &["add_project", "new_project"]),
];
const WORDS: &[(&str, &[&str])] = &[
    ("stop_attempt", &["cancel", "kill", "abort", "terminate", "interrupt", "end", "stop"]),
    ("tail_attempt_logs", &["log", "logs", "output"]),
    ("tail_session_messages", &["messages", "transcript", "conversation", "history"]),
    ("get_attempt_patch", &["patch"]),
    ("get_attempt_changes", &["diff", "changes", "changed"]),
    ("get_attempt_file", &["file", "read", "cat"]),
    ("wait_for_attempts", &["wait", "await", "poll", "join"]),
    (
        "follow_up",
        &["message", "continue", "resume", "reply", "send", "follow", "followup", "prompt"],
    ),
    ("tail_attempt_logs", &["tail"]),
    ("get_attempt_status", &["status", "state"]),
];

/// Names of fields.
const FIELDS: &[(&str, &[&str])] = &[
    ("attempt_id", &["workspace_id", "run_id", "id"]),
    ("task_id", &["id", "task"]),
    ("project_id", &["project", "id"]),
    ("prompt", &["message", "text", "instructions", "input"]),
    ("description", &["body", "details", "instructions", "text"]),
    ("title", &["name", "summary", "subject"]),
    ("name", &["title"]),
    ("executor", &["agent", "model", "profile"]),
    ("target_branch", &["branch", "base_branch", "base"]),
    ("path", &["repo_path", "dir", "directory", "folder"]),
    ("limit", &["count", "page_size", "max_results", "per_page", "size", "n", "lines"]),
    ("cursor", &["page_token", "next_cursor", "before"]),
    ("after_entry_index", &["after", "since", "offset", "from"]),
    ("updated_since", &["since", "updated_after"]),
    ("request_id", &["idempotency_key", "client_request_id"]),
    ("depends_on", &["dependencies", "blocked_by", "parents"]),
    ("force", &["hard", "kill"]),
    ("channel", &["stream", "kind"]),
    ("timeout_ms", &["timeout"]),
];

/// Fields of other systems that say in another way what one of ours says: never to
/// be renamed to it, and how to put it.
const OTHERWISE: &[(&str, &[&str], &str)] = &[
    (
        "line_count",
        &["end_line", "line_end", "last_line", "to_line"],
        "line_count = end_line - start_line + 1.",
    ),
    (
        "timeout_ms",
        &["timeout_s", "timeout_sec", "timeout_secs", "timeout_seconds"],
        "timeout_ms takes milliseconds.",
    ),
];

/// Values of enums.
const VALUES: &[(&str, &[&str])] = &[
    ("todo", &["open", "pending", "new", "backlog", "ready", "queued"]),
    ("inprogress", &["doing", "started", "wip", "active", "running"]),
    ("inreview", &["review", "reviewing"]),
    ("done", &["completed", "complete", "finished", "closed", "resolved", "success"]),
    ("cancelled", &["aborted", "dropped", "wontfix"]),
    ("critical", &["urgent", "highest", "blocker", "p0"]),
    ("high", &["important", "p1"]),
    ("medium", &["normal", "default", "p2"]),
    ("low", &["lowest", "minor", "p3"]),
    ("raw", &["stdout", "stderr", "text"]),
    ("normalized", &["messages", "parsed"]),
    ("send", &["message", "reply", "continue"]),
    ("queue", &["enqueue", "later"]),
    ("cancel", &["clear", "drop"]),
    ("any_settled", &["any", "first"]),
    ("all_settled", &["all"]),
    ("any_change", &["change"]),
];

/// The tool that was meant, of those that can be seen.
pub fn tool<'a>(given: &str, seen: &[&'a str]) -> Option<&'a str> {
    let given = snake_case(given.rsplit("__").next().unwrap_or(given));
    let exact = seen.iter().copied().find(|name| *name == given);
    let by_word = || given.split('_').find_map(|word| synonym(WORDS, word, seen));
    exact
        .or_else(|| synonym(TOOLS, &given, seen))
        .or_else(by_word)
        .or_else(|| nearest(&given, seen.iter().copied()))
}

/// The field that was meant, of those that could stand there.
pub fn field<'a>(given: &str, free: &[&'a str]) -> Option<&'a str> {
    nearest(given, free.iter().copied()).or_else(|| synonym(FIELDS, &snake_case(given), free))
}

/// How what a field was to say is said here, if by one of these fields.
pub fn otherwise(given: &str, known: &[&str]) -> Option<&'static str> {
    let given = snake_case(given);
    let mut lines = OTHERWISE.iter();
    lines
        .find(|(name, words, _)| known.contains(name) && words.contains(&given.as_str()))
        .map(|(_, _, how)| *how)
}

/// The value that was meant, of those that are allowed.
pub fn value<'a>(given: &str, allowed: &[&'a str]) -> Option<&'a str> {
    synonym(VALUES, &snake_case(given), allowed).or_else(|| nearest(given, allowed.iter().copied()))
}

fn synonym<'a>(table: &[(&str, &[&str])], given: &str, known: &[&'a str]) -> Option<&'a str> {
    let mut lines = table.iter().filter(|(_, words)| words.contains(&given));
    lines.find_map(|(name, _)| known.iter().copied().find(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_another_system_finds_the_tool_that_exists() {
        let seen =
            ["stop_attempt", "start_task_attempt", "get_attempt_status", "tail_attempt_logs"];
        for (given, meant) in [
            ("cancel_attempt", Some("stop_attempt")),
            ("mcp__provost__kill", Some("stop_attempt")),
            ("startAttempt", Some("start_task_attempt")),
            ("get_task_attempt", Some("get_attempt_status")),
            ("attempt_status", Some("get_attempt_status")),
            ("Get-Logs", Some("tail_attempt_logs")),
            ("send_follow_up", None),
            ("fly", None),
        ] {
            assert_eq!(tool(given, &seen), meant, "{given}");
        }
    }

    #[test]
    fn values_and_fields_are_found_by_meaning_and_by_likeness() {
        let statuses = ["todo", "inprogress", "inreview", "done", "cancelled"];
        assert_eq!(value("in_progress", &statuses), Some("inprogress"));
        assert_eq!(value("inProgress", &statuses), Some("inprogress"));
        assert_eq!(value("COMPLETED", &statuses), Some("done"));
        assert_eq!(value("wombat", &statuses), None);
        assert_eq!(field("message", &["attempt_id", "prompt"]), Some("prompt"));
        assert_eq!(field("workspace_id", &["prompt"]), None);
        assert!(otherwise("endLine", &["path", "line_count"]).is_some());
        assert_eq!(otherwise("end_line", &["path"]), None);
    }
}

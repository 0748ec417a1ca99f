//! Guesses what callers mean by unknown names of tools and by unknown values: by likeness, and by the
//! words of other systems for the same thing. Pure.

use heck::ToSnakeCase;
use provost_actors::nearest::{nearest, slip};

use super::row::{Effect, Row};

/// The meaning of a tool name that does not exist.
#[derive(Debug, PartialEq)]
pub enum Meant {
    Tool(&'static str),
    /// No tool does that. The text says what is true instead.
    Absent(&'static str),
    Unknown,
}

/// Names that other systems have for tools (`TOOLS`), and single words within a name (`WORDS`): a tool a
/// line, and its words. A line whose tool the caller can't see is skipped.
const TOOLS: &str = "\
get_attempt_status: get_task_attempt get_attempt check_attempt show_attempt attempt_status
update_task: update_status set_status set_task_status complete_task
start_task_attempt: run_task start_task execute_task run_attempt run start_attempt create_attempt
start_task_attempt: create_task_attempt new_attempt retry_attempt retry_task retry restart_attempt
start_task_attempt: start_workspace_session start_session start_workspace start_agent
start_task_attempt: spawn_agent launch_agent
list_repos: list_repositories get_repos get_repositories
list_task_attempts: list_attempts get_attempts get_task_attempts list_sessions list_workspaces
list_task_attempts: list_runs
list_executors: list_agents get_agents list_models list_profiles
list_projects: get_project show_project find_project
create_task: add_task new_task
create_project: add_project new_project
comment_on_changes: add_comment create_comment review_changes submit_review request_changes
list_inbox: list_permissions get_approvals pending_approvals list_approvals list_questions inbox
answer: approve approve_request respond_approval answer_question respond_to_approval grant_permission deny reject respond";
const WORDS: &str = "\
tail_attempt_logs: log logs output
tail_session_messages: messages transcript conversation history
get_attempt_patch: patch
get_attempt_changes: diff changes changed
get_attempt_file: file read cat
comment_on_changes: comment comments review
wait_for_attempts: wait await poll join
follow_up: message continue resume reply send follow followup prompt
tail_attempt_logs: tail
list_executors: executor agents
get_attempt_status: status state";

/// Verbs that end a run, and the words that may follow them.
const STOPS: &str = "cancel kill abort terminate interrupt end stop halt";
const RUNS: &str = "attempt attempts task run agent execution process";

/// Words for what no tool does under that name, with an explanation. A tool that deletes is never
/// suggested.
const ABSENT: &[(&str, &str)] = &[
    (
        "An attempt's work is committed, merged, pushed, proposed or discarded when its user decides \
         so: see finish_attempt and its action.",
        "merge rebase squash push commit pr pull",
    ),
    (
        "Provost keeps attempts and projects, no tool deletes one, and a tool that deletes is \
         never guessed: `provost gc` removes the worktrees that are no longer needed.",
        "delete remove rm drop destroy discard cleanup prune",
    ),
];

/// The explanation for `cancel_task`, which could mean two tools.
const CANCEL_TASK: &str = "A task is cancelled by its status, an attempt is stopped by its \
    attempt_id: see update_task and stop_attempt.";

/// Values of enums, and the words of other systems for them.
const VALUES: &str = "\
todo: open pending new backlog ready queued
open: pending waiting unanswered unresolved
inprogress: doing started wip active running
inreview: review reviewing
done: completed complete finished closed resolved success
cancelled: aborted dropped wontfix
critical: urgent highest blocker p0
high: important p1
medium: normal default p2
low: lowest minor p3
raw: stdout stderr text
normalized: messages parsed
send: message reply continue resume start run prompt now
queue: enqueue later append
cancel: clear drop
any_settled: any first any_done any_completed
all_settled: all all_done all_completed
any_change: change
approve: yes y ok allow accept approved allowed grant allow_once
deny: no n reject rejected refuse decline denied block";

/// The lines of a table: a name, and its words.
fn lines(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.lines().filter_map(|line| line.split_once(": "))
}

/// True if a word is one of `words`, which are separated by blanks.
pub fn is_among(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// The tool that was meant, from those that the caller can see. A prefix such as `mcp__provost__` is
/// ignored.
pub fn tool(given: &str, seen: &[&'static Row]) -> Meant {
    let given = given.rsplit("__").next().unwrap_or(given).to_snake_case();
    let given = given.strip_prefix("provost_").unwrap_or(&given);
    let words: Vec<&str> = given.split('_').filter(|word| !word.is_empty()).collect();
    let names: Vec<&'static str> = seen.iter().map(|tool| tool.name).collect();
    let removes =
        |name: &str| seen.iter().any(|tool| tool.name == name && tool.effect == Effect::Removes);
    let same = |name: &&&'static str| {
        let name = name.to_snake_case();
        name == given || have_same_words(&name, &words)
    };
    let found = names.iter().find(same).copied().or_else(|| synonym(TOOLS, given, &names));
    if let Some(name) = found.filter(|name| !removes(name)) {
        return Meant::Tool(name);
    }
    if given == "cancel_task" {
        return Meant::Absent(CANCEL_TASK);
    }
    let mut absent = ABSENT.iter();
    if let Some((why, _)) = absent.find(|(_, verbs)| words.iter().any(|word| is_among(verbs, word)))
    {
        return Meant::Absent(why);
    }
    if let Some((verb, rest)) = words.split_first()
        && is_among(STOPS, verb)
        && rest.iter().all(|word| is_among(RUNS, word))
        && names.contains(&"stop_attempt")
    {
        return Meant::Tool("stop_attempt");
    }
    let mut lines = lines(WORDS).filter(|(name, _)| names.contains(name));
    let by_word = lines.find(|(_, known)| words.iter().any(|word| is_among(known, word)));
    // Tools that change nothing may be guessed from a larger distance.
    let reads = seen.iter().filter(|tool| tool.effect == Effect::Reads);
    let found = by_word
        .map(|(name, _)| name)
        .or_else(|| slip(given, names.iter().copied().filter(|name| !removes(name))))
        .or_else(|| nearest(given, reads.map(|tool| tool.name)));
    found.map_or(Meant::Unknown, Meant::Tool)
}

/// True if two names have the same words in any order and number: `task_list` and `list_task` are
/// `list_tasks`.
fn have_same_words(name: &str, words: &[&str]) -> bool {
    let sorted = |words: &mut dyn Iterator<Item = &str>| {
        let mut words: Vec<String> =
            words.map(|word| word.trim_end_matches('s').to_owned()).collect();
        words.sort_unstable();
        words
    };
    sorted(&mut name.split('_')) == sorted(&mut words.iter().copied())
}

/// The allowed value that was meant.
pub fn value<'a>(given: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let synonym = synonym(VALUES, &given.to_snake_case(), allowed);
    synonym.or_else(|| nearest(given, allowed.iter().copied()))
}

fn synonym<'a>(table: &'static str, given: &str, known: &[&'a str]) -> Option<&'a str> {
    let mut lines = lines(table).filter(|(_, words)| is_among(words, given));
    lines.find_map(|(name, _)| known.iter().copied().find(|known| *known == name))
}

#[cfg(test)]
mod tests {
    use super::super::table as tools;
    use super::*;

    #[test]
    fn a_word_of_another_system_finds_the_tool_that_exists() {
        let seen: Vec<&Row> =
            tools::all().iter().map(|tool| &**tool).filter(|tool| !tool.is_workers()).collect();
        for (given, meant) in [
            ("cancel_attempt", "stop_attempt"),
            ("mcp__provost__kill", "stop_attempt"),
            ("startAttempt", "start_task_attempt"),
            ("create_attempt", "start_task_attempt"),
            ("get_task_attempt", "get_attempt_status"),
            ("Get-Logs", "tail_attempt_logs"),
            ("read_logs", "tail_attempt_logs"),
            ("task_list", "list_tasks"),
            ("provost.list_tasks", "list_tasks"),
            ("list_agents", "list_executors"),
            ("list_sessions", "list_task_attempts"),
            ("get_project", "list_projects"),
            ("approve", "answer"),
            ("stop_atempt", "stop_attempt"),
        ] {
            assert_eq!(tool(given, &seen), Meant::Tool(meant), "{given}");
        }
        assert_eq!(tool("fly", &seen), Meant::Unknown);
    }

    #[test]
    fn what_takes_something_away_is_never_guessed() {
        let seen: Vec<&Row> = tools::all().iter().map(|tool| &**tool).collect();
        for given in [
            "delete_attempt",
            "delete_project",
            "deleteTask",
            "remove_task",
            "task_delete",
            "delet_task",
            "merge_attempt",
            "cancel_task",
        ] {
            let meant = tool(given, &seen);
            assert!(!matches!(meant, Meant::Tool("delete_task")), "{given}: {meant:?}");
        }
        for given in ["delete_attempt", "delete_project", "merge_attempt", "create_pr"] {
            assert!(matches!(tool(given, &seen), Meant::Absent(_)), "{given}");
        }
    }

    #[test]
    fn values_are_found_by_meaning_and_by_likeness() {
        let statuses = ["todo", "inprogress", "inreview", "done", "cancelled"];
        assert_eq!(value("in_progress", &statuses), Some("inprogress"));
        assert_eq!(value("inProgress", &statuses), Some("inprogress"));
        assert_eq!(value("COMPLETED", &statuses), Some("done"));
        assert_eq!(value("wombat", &statuses), None);
        assert_eq!(value("yes", &["approve", "deny"]), Some("approve"));
        assert_eq!(value("reject", &["approve", "deny"]), Some("deny"));
        assert_eq!(value("resume", &["send", "queue", "cancel"]), Some("send"));
    }
}

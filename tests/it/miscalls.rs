//! The calls that agents get wrong, and that each hint, followed mechanically,
//! leads to one that works.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Board, PLAIN, Provost};
use crate::hints::{self, Follower, Way};

const TABLE: &str = include_str!("miscalls.txt");

/// An id that was never issued.
const NONE: &str = "01900000-0000-7000-8000-000000000000";

/// Codes that no wrong call provokes, and where they come from.
const ELSEWHERE: &[(&str, &str)] = &[
    ("no_session_yet", "an attempt has its first session from its very start"),
    ("spawn_failed", "a start answers before its process is spawned: the attempt fails instead"),
    ("turn_not_found", "a turn without a snapshot: see turns.rs"),
    ("sandbox_unavailable", "a machine that can't hold a box: see sandbox/mod.rs"),
    ("checkout_in_the_way", "a person's changes where a merge goes: see finish.rs"),
    ("elsewhere", "another host has the attempt"),
    ("ticket_not_found", "the worker API"),
    ("invalid_state", "the worker API"),
    ("token_limit_exceeded", "the worker API"),
    ("timeout", "the worker API"),
    ("db_locked", "another program holds the database"),
    ("db_unavailable", "the database is lost under the daemon"),
    ("storage_full", "a full disk"),
    ("rate_limited", "too many calls at once on one connection"),
    ("daemon_unavailable", "no daemon, and none can be started"),
    ("daemon_restarting", "the daemon dies and does not come back"),
    ("shutting_down", "a call that meets the daemon's end"),
    ("internal", "a fault of ours"),
];

/// A line of the table.
struct Line<'t> {
    tool: &'t str,
    arguments: &'t str,
    code: &'t str,
    way: Way,
}

fn lines() -> Vec<Line<'static>> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse(line).unwrap_or_else(|| panic!("no line of a table: {line}"))).collect()
}

fn parse(line: &str) -> Option<Line<'_>> {
    let (call, expected) = line.rsplit_once(" -> ")?;
    let (tool, arguments) = call.split_once(' ')?;
    let (code, way) = expected.split_once(": ")?;
    let way = match way {
        "read" => Way::Read,
        "person" => Way::Person,
        "later" => Way::Later,
        count => Way::Steps(count.parse().ok()?),
    };
    Some(Line { tool, arguments, code, way })
}

/// What the `$names` of the table stand for.
fn names(board: &Board) -> Vec<(&'static str, String)> {
    let provost = board.provost;
    let lost = Board::new(provost, vec![provost.repo("lost")]);
    std::fs::remove_dir_all(&lost.repo().path).unwrap();
    let (task, deleted) = (board.task("task"), board.task("deleted"));
    provost.call("delete_task", &json!({"task_id": deleted}));
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "write made.txt made\nsay hi"}));
    let settled = attempt.settled();
    let orphan = board.start("fake", "say hi");
    orphan.settled();
    provost.call("delete_task", &json!({"task_id": orphan.started["task_id"]}));
    let busy = board.task("busy");
    let busy_attempt = board.start_at(&busy, "fake", &json!({"prompt": "hang"}));
    let used = json!({"project_id": board.project_id, "title": "used", "request_id": "used"});
    provost.call("create_task", &used);
    for title in ["see to it", "see to this", "see to that", "see to all"] {
        provost.call("createTicket", &json!({"project_id": board.project_id, "title": title}));
    }
    let shop = provost.repo("shop");
    provost.call("create_project", &json!({"name": "shop", "repos": [{"path": shop.path}]}));
    let id = |name: &str| settled[name].as_str().unwrap().to_owned();
    let whole = [
        ("project", board.project_id.clone()),
        ("session", id("latest_session_id")),
        ("attempt", attempt.id.clone()),
        ("task", task.clone()),
    ];
    let end = |id: &str| id[id.len() - 12..].to_owned();
    let mut names = vec![
        ("attempt_end", end(&attempt.id)),
        ("session_end", end(&whole[1].1)),
        ("project_end", end(&board.project_id)),
        ("task_end", end(&task)),
        ("busy_attempt", busy_attempt.id),
        ("busy", busy),
        ("process", id("latest_execution_process_id")),
        ("repo", board.repo_ids[0].clone()),
        ("path", board.repo().path.to_str().unwrap().to_owned()),
        ("fresh", provost.repo("fresh").path.to_str().unwrap().to_owned()),
        ("none", NONE.to_owned()),
        ("long", "x".repeat(1001)),
        ("many", json!(vec![NONE; 51]).to_string()),
        ("deleted", deleted),
        ("homeless", lost.task("homeless")),
        ("blocked", board.task_with("blocked", &json!({"depends_on": [task]}))),
        ("spare", board.task("spare")),
        ("branch", id("workspace_branch")),
        ("orphan", orphan.id.clone()),
        ("project_name", "shop".to_owned()),
        ("ticket", "TK-001".to_owned()),
        ("second_ticket", "TK-002".to_owned()),
    ];
    names.extend(whole);
    names
}

#[test]
fn every_hint_followed_word_for_word_leads_where_the_table_says() {
    let provost = Provost::new()
        .config("[daemon]\nmax_running_attempts = 64")
        .executor("varied", PLAIN, "echo done")
        .config("[executors.varied.variants.quick]\n[executors.absent]")
        .config("protocol = 'plain'\ncommand = ['/nowhere/at/all']")
        .started();
    let board = provost.board();
    let names = names(&board);
    let of = |wanted: &str| names.iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
    let known =
        json!({"project_id": of("project"), "task_id": of("task"), "attempt_id": of("attempt")});
    let follower = Follower { provost: &provost, known };
    let mut wrong = Vec::new();
    for line in lines() {
        let arguments = names.iter().fold(line.arguments.to_owned(), |arguments, (name, value)| {
            arguments.replace(&format!("${name}"), value)
        });
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let refusal = provost.refusal(line.tool, &arguments);
        hints::harmless(line.tool, &arguments, &refusal);
        let way = follower.follow(line.tool, &arguments);
        if (refusal["code"].as_str(), way) != (Some(line.code), line.way) {
            let call = format!("{} {}", line.tool, line.arguments);
            wrong.push(format!("{call}\n  {way:?}, not {:?}: {refusal}", line.way));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_is_long_and_has_every_code_that_a_call_can_provoke() {
    assert!(lines().len() >= 100);
    let listed = Provost::new().verb(["tools", "--errors", "--json"]).json();
    let codes = listed["errors"].as_array().unwrap().iter();
    let codes: BTreeSet<String> =
        codes.map(|code| code["code"].as_str().unwrap().to_owned()).collect();
    let provoked = lines().into_iter().map(|line| line.code.to_owned());
    let elsewhere = ELSEWHERE.iter().map(|(code, _)| (*code).to_owned());
    assert_eq!(provoked.chain(elsewhere).collect::<BTreeSet<_>>(), codes);
}

#[test]
fn every_code_has_a_general_hint_of_one_of_the_forms() {
    let listed = Provost::new().verb(["tools", "--errors", "--json"]).json();
    for code in listed["errors"].as_array().unwrap() {
        let details = json!({"fields": ["attempt_id", "session_id"]});
        assert!(hints::read(code["hint"].as_str().unwrap(), &details).is_some(), "{code}");
    }
}

/// What agents call tools, and the tool that is meant.
const VERBS: &str = "
cancel_attempt stop_attempt
kill_attempt stop_attempt
abort stop_attempt
terminate_attempt stop_attempt
mcp__provost__stop_attempt stop_attempt
startAttempt start_task_attempt
start_attempt start_task_attempt
run_task start_task_attempt
get_task_attempt get_attempt_status
attempt_status get_attempt_status
getAttemptStatus get_attempt_status
get_logs tail_attempt_logs
tail_logs tail_attempt_logs
list_attempts list_task_attempts
list_task list_tasks
add_task create_task
updateTask update_task
list_repositories list_repos
send_follow_up follow_up
reply follow_up
add_comment comment_on_changes
review comment_on_changes
resume_attempt follow_up
wait wait_for_attempts
wait_for_attempt wait_for_attempts
get_diff get_attempt_changes
get_messages tail_session_messages
get_patch get_attempt_patch
read_file get_attempt_file
create_attempt start_task_attempt
create_task_attempt start_task_attempt
retry_attempt start_task_attempt
start_workspace_session start_task_attempt
read_logs tail_attempt_logs
list_agents list_executors
list_sessions list_task_attempts
list_workspaces list_task_attempts
get_project list_projects
task_list list_tasks
approve answer
get_approvals list_inbox
";

#[test]
fn a_wrong_verb_is_a_protocol_error_that_names_the_right_one() {
    let provost = Provost::running();
    let mut client = provost.connect();
    for line in VERBS.trim().lines() {
        let (given, meant) = line.split_once(' ').unwrap();
        let answer = client.ask("tools/call", &json!({"name": given, "arguments": {}}));
        let error = &answer["error"];
        assert_eq!(error["code"], -32602, "{given}: {answer}");
        let hint = error["data"]["hint"].as_str().unwrap();
        let step = hints::read(hint, &json!({}));
        assert_eq!(step, Some(hints::Step::Instead(meant.to_owned())), "{given}: {hint}");
    }
}

/// Names for what no tool does, and a word of the hint.
const ABSENT: &str = "
delete_attempt gc
delete_project gc
remove_worktree gc
deleteTask gc
merge_attempt finish_attempt
create_pr finish_attempt
";

/// Most clients show the message alone.
#[test]
fn what_provost_does_not_do_is_said_in_the_message() {
    let provost = Provost::running();
    let mut client = provost.connect();
    for line in ABSENT.trim().lines() {
        let (given, word) = line.split_once(' ').unwrap();
        let answer = client.ask("tools/call", &json!({"name": given, "arguments": {}}));
        let error = &answer["error"];
        assert!(error["message"].as_str().unwrap().contains(word), "{given}: {error}");
        assert!(error["data"]["nearest"].is_null(), "{given}: {error}");
        assert!(!error["data"]["hint"].as_str().unwrap().contains("delete_task"), "{given}");
    }
}

/// A handle is as good as an id, in every tool that takes a task, and the answer has both.
#[test]
fn a_task_goes_by_its_handle_in_every_tool() {
    let provost = Provost::running();
    let board = provost.board();
    let made = provost.call("create_task", &json!({"project_id": board.project_id, "title": "t"}));
    let (task, handle) = (&made["task_id"], &made["handle"]);
    assert_eq!(handle, "TASK-001");
    let got = provost.call("get_task", &json!({"task_id": "task-001"}));
    assert_eq!(&got["task"]["task_id"], task);
    let by_handle =
        json!({"task_id": handle, "executor": "fake", "prompt": "say hi", "request_id": "s"});
    let started = provost.call("start_task_attempt", &by_handle);
    assert_eq!((&started["task_id"], &started["handle"]), (task, handle));
    // The same call by the task's id.
    let by_id = json!({"task_id": task, "executor": "fake", "prompt": "say hi", "request_id": "s"});
    assert_eq!(provost.call("start_task_attempt", &by_id), started);
    let listed = provost.call("list_task_attempts", &json!({"task_id": handle}));
    assert_eq!(listed["latest_attempt_id"], started["attempt_id"]);
    let waited = json!({"attempt_ids": [started["attempt_id"]], "timeout_ms": 50_000});
    provost.call("wait_for_attempts", &waited);
    let status = provost.call("get_attempt_status", &json!({"attempt_id": started["attempt_id"]}));
    assert_eq!(&status["handle"], handle);
    let changed = provost.call("update_task", &json!({"task_id": handle, "title": "u"}));
    assert_eq!(changed["task"]["title"], "u");
    let removal = json!({"task_id": handle, "request_id": "d"});
    let deleted = provost.call("delete_task", &removal);
    assert_eq!((&deleted["deleted_task_id"], &deleted["handle"]), (task, handle));
    assert_eq!(provost.call("delete_task", &removal), deleted);
    assert_eq!(provost.refusal("get_task", &json!({"task_id": handle}))["code"], "task_not_found");
}

/// Where several projects have the handle, none is taken by chance.
#[test]
fn a_handle_of_several_projects_is_refused_with_their_names() {
    let provost = Provost::running();
    let (one, other) = (provost.board(), Board::new(&provost, vec![provost.repo("other")]));
    let tasks = [one.task("one"), other.task("other")];
    let refusal = provost.refusal("delete_task", &json!({"task_id": "TASK-001"}));
    assert_eq!(refusal["code"], "invalid_argument");
    for task in &tasks {
        assert!(refusal["message"].as_str().unwrap().contains(task.as_str()), "{refusal}");
        provost.call("get_task", &json!({"task_id": task}));
    }
}

#[test]
fn an_unfinished_dependency_is_named_before_the_way_around_it() {
    let provost = Provost::running();
    let board = provost.board();
    let first = board.task("first");
    let second = board.task_with("second", &json!({"depends_on": [first]}));
    let start = json!({"task_id": second, "executor": "fake", "prompt": "say hi"});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert_eq!(refusal["message"], "The task depends on 1 unfinished task: TASK-001.");
    let step = hints::read(refusal["hint"].as_str().unwrap(), &refusal["details"]);
    let look = |tool: &str, field: &str, value: Value| {
        Some(hints::Step::InsteadWith(tool.to_owned(), field.to_owned(), value))
    };
    assert_eq!(step, look("get_task", "task_id", json!(first)));

    // While an attempt at it runs, that is what to wait for.
    let attempt = board.start_at(&first, "fake", &json!({"prompt": "hang"}));
    let refusal = provost.refusal("start_task_attempt", &start);
    let step = hints::read(refusal["hint"].as_str().unwrap(), &refusal["details"]);
    assert_eq!(step, look("wait_for_attempts", "attempt_ids", json!([attempt.id])));
    attempt.stop();
}

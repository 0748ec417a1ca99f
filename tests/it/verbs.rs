//! The verbs as a person meets them: what a failed one leaves, what its errors name, and
//! tables on narrow terminals.

use std::fs;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::harness::{Board, Done, EVENTS, PLAIN, Provost, wait_until};

/// An id that was never issued.
const NONE: &str = "01900000-0000-7000-8000-000000000000";

/// Folders in which there is git and no coding agent.
const SYSTEM: &str = "/usr/bin:/bin";

/// A home on a machine without coding agents.
fn without_agents() -> Provost {
    Provost::new().variable("PATH", SYSTEM)
}

fn tasks(provost: &Provost) -> usize {
    let listed = provost.verb(["task", "list", "--json"]).json();
    listed["tasks"].as_array().unwrap().len()
}

#[test]
fn a_run_without_a_coding_agent_says_how_to_install_one() {
    let provost = without_agents();
    let repo = provost.repo("app");
    assert_eq!(provost.verb(["init", repo.path.to_str().unwrap()]).code, 0);
    let refused = provost.verb(["run", "Add a login page"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
    for said in ["claude", "codex", "gemini", "npm install", "provost executors", "fake"] {
        assert!(refused.stderr.contains(said), "{said}: {refused:?}");
    }
    assert_eq!(tasks(&provost), 0);
    let listed = provost.verb(["executors"]).stdout;
    assert!(listed.contains("fake (stand-in)"), "{listed}");
}

#[test]
fn a_run_takes_the_only_executor_that_is_installed() {
    let provost = without_agents().executor("mine", PLAIN, "echo done by mine").started();
    provost.board();
    let done = provost.verb(["run", "Add a login page", "--follow"]);
    assert!(done.code == 0 && done.stdout.contains("done by mine"), "{done:?}");
    let provost = without_agents().executor("one", PLAIN, "true").executor("two", PLAIN, "true");
    let provost = provost.started();
    provost.board();
    let refused = provost.verb(["run", "Add a login page"]);
    assert!(refused.code == 2 && refused.stderr.contains("one, two"), "{refused:?}");
    assert_eq!(tasks(&provost), 0);
}

#[test]
fn a_run_that_is_refused_leaves_no_task() {
    let provost = without_agents();
    let provost = provost
        .config("[executors.gone]\nprotocol = 'plain'\ncommand = ['/nowhere/agent']")
        .started();
    let board = provost.board();
    for (executor, variant, code) in
        [("clade", None, 4), ("fake", Some("plan"), 4), ("gone", None, 1), ("claude", None, 1)]
    {
        let mut words = vec!["run", "Add a login page", "--executor", executor];
        words.extend(variant.into_iter().flat_map(|variant| ["--variant", variant]));
        let refused = Provost::done(provost.command(&words));
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{refused:?}");
        assert_eq!(tasks(&provost), 0, "{executor}");
    }
    // What only the start itself can find out.
    fs::rename(&board.repo().path, provost.path("elsewhere")).unwrap();
    let refused = provost.verb(["run", "Add a login page", "--executor", "fake"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(tasks(&provost), 0);
}

#[test]
fn run_says_which_project_it_took_where_nothing_tells() {
    let provost = Provost::running();
    let board = provost.board();
    let elsewhere = provost.verb(["run", "say hi", "--executor", "fake"]);
    assert!(elsewhere.stderr.contains("project scratch"), "{elsewhere:?}");
    let mut command = provost.command(&["run", "say hi", "--executor", "fake"]);
    command.current_dir(&board.repo().path);
    assert_eq!(Provost::done(command).stderr, "");
}

/// Wrong uses of every verb that can be used wrongly with a daemon at hand.
#[test]
fn no_error_of_a_verb_names_tools_or_fields() {
    let provost = without_agents().started();
    let board = provost.board();
    let task = board.task("a task");
    let after = board.task_with("another", &json!({"depends_on": [task]}));
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "write x.txt hi\nhang"}));
    let id = attempt.id.as_str();
    let (repo, nowhere) = (board.repo().path.to_str().unwrap(), provost.path("nowhere"));
    let nowhere = nowhere.to_str().unwrap();
    let (empty, other) = (provost.empty_repo("empty"), provost.repo("other"));
    let long = "x".repeat(2000);
    let no_branch = format!("{repo}@nothing");
    fs::write(provost.path("plan.md"), "# Plan\n\nIt is blue.\n").unwrap();
    let plan = provost.path("plan.md");
    let plan = plan.to_str().unwrap();
    let words: Vec<Vec<&str>> = vec![
        vec!["init", nowhere],
        vec!["init", empty.path.to_str().unwrap()],
        vec!["init", other.path.to_str().unwrap(), "--name", &long],
        vec!["project", "add", "p", "--repo", nowhere],
        vec!["project", "add", "p", "--repo", &no_branch],
        vec!["project", "rm", "nothing"],
        vec!["project", "rm", "scratch", "--yes"],
        vec!["task", "add", &long],
        vec!["task", "add", " "],
        vec!["task", "add", "t", "--depends-on", "TASK-099"],
        vec!["task", "start", "TASK-099"],
        vec!["task", "start", &after, "--executor", "fake"],
        vec!["task", "start", &after, "--executor", "fake", "--variant", "x"],
        vec!["task", "start", &after],
        vec!["task", "done", NONE],
        vec!["task", "edit", NONE, "--title", "x"],
        vec!["task", "edit", &task, "--title", " "],
        vec!["task", "edit", &task, "--depends-on", "TASK-099"],
        vec!["task", "rm", NONE],
        vec!["task", "rm", &task],
        vec!["task", "show", "nothing"],
        vec!["task", "list", "--project", "nothing"],
        vec!["run", "hi"],
        vec!["run", "hi", "--executor", "clade"],
        vec!["run", "hi", "--executor", "claude"],
        vec!["run", "hi", "--executor", "fake", "--variant", "plan"],
        vec!["run", "hi", "--project", "nothing"],
        vec!["status", NONE],
        vec!["status", "deadbeef"],
        vec!["logs", NONE],
        vec!["replay", NONE],
        vec!["diff", NONE],
        vec!["diff", id, "no/such/file"],
        vec!["diff", id, ""],
        vec!["path", NONE],
        vec!["shell", NONE],
        vec!["open", NONE],
        vec!["open", id, "nothing"],
        vec!["retry", NONE],
        vec!["retry", id, "--session"],
        vec!["send", NONE, "hi"],
        vec!["send", id, "hi"],
        vec!["send", id, " "],
        vec!["queue", NONE, "hi"],
        vec!["queue", id, "hi", "--variant", "nothing"],
        vec!["approvals", NONE],
        vec!["approve", NONE],
        vec!["deny", NONE, "--reason", &long],
        vec!["inbox", "--project", "nothing"],
        vec!["answer", "Q-099", "hi"],
        vec!["answer", "nonsense", "hi"],
        vec!["plan", "add", plan, "--name", " ", "--version", "1"],
        vec!["plan", "remove", "nothing"],
        vec!["stop", NONE],
        vec!["wait", NONE],
        vec!["checks", "TASK-099"],
        vec!["checks", &task, "--log", "nothing"],
        vec!["gc", "--project", "nothing"],
    ];
    let tools = provost.verb(["tools", "--json"]).json();
    let tools: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    for line in words {
        let refused = Provost::done(provost.command(&line));
        let stderr = &refused.stderr;
        assert!(refused.code != 0 && stderr.contains("error: "), "{line:?}: {refused:?}");
        let hint = stderr.split_once("hint: ").map_or("", |(_, hint)| hint);
        assert!(!hint.contains("Call ") && !hint.contains("call "), "{line:?}: {stderr}");
        let named = tools.iter().find(|tool| stderr.contains(**tool));
        assert_eq!(named, None, "{line:?}: {stderr}");
        for field in ["_id", "target_branch", "details.", "`title`", "`prompt`", "`name`"] {
            assert!(!stderr.contains(field), "{line:?}: {stderr}");
        }
    }
    attempt.stop_by_force();
}

#[test]
fn with_json_every_error_is_an_envelope() {
    let provost = without_agents();
    let envelope = |done: &Done| -> Value {
        assert_eq!(done.stdout, "", "{done:?}");
        let envelope: Value = serde_json::from_str(&done.stderr).unwrap_or_else(|error| {
            panic!("{error}: {done:?}");
        });
        let keys: Vec<&String> = envelope.as_object().unwrap().keys().take(5).collect();
        assert_eq!(keys, ["error", "code", "message", "retryable", "hint"], "{envelope}");
        envelope
    };
    let none = provost.verb(["--json", "shutdown"]);
    assert_eq!((none.code, &envelope(&none)["code"]), (3, &json!("daemon_unavailable")));
    provost.start();
    for (words, code, name) in [
        (vec!["--json", "status", "deadbeef"], 4, "attempt_not_found"),
        (vec!["--json", "status", NONE], 4, "attempt_not_found"),
        (vec!["status", "short", "--json"], 2, "invalid_argument"),
        (vec!["status", "--json"], 2, "invalid_argument"),
        (vec!["list", "--json"], 2, "invalid_argument"),
        (vec!["run", "hi", "--json"], 2, "invalid_argument"),
        (
            vec!["task", "show", "TASK-009", "--project", "nothing", "--json"],
            4,
            "project_not_found",
        ),
    ] {
        let done = Provost::done(provost.command(&words));
        let error = envelope(&done);
        assert_eq!(
            (done.code, error["code"].as_str().unwrap()),
            (code, name),
            "{words:?}: {error}"
        );
    }
    let tip = envelope(&provost.verb(["list", "--json"]));
    assert!(tip["hint"].as_str().unwrap().contains("provost ps"), "{tip}");
}

#[test]
fn help_is_a_verb_and_words_from_elsewhere_lead_to_verbs() {
    let provost = Provost::new();
    let help = provost.verb(["help"]);
    assert!(help.code == 0 && help.stdout.contains("shutdown"), "{help:?}");
    let help = provost.verb(["help", "logs"]);
    assert!(help.code == 0 && help.stdout.contains("--follow"), "{help:?}");
    for (word, verb) in [
        ("start", "provost run PROMPT"),
        ("rerun", "provost retry"),
        ("rename", "provost task edit"),
        ("man", "provost help"),
        ("version", "provost --version"),
        ("ui", "provost open"),
        ("edit", "provost open --editor"),
        ("delete", "provost task rm"),
    ] {
        let done = provost.verb([word]);
        assert_eq!(done.code, 2, "{done:?}");
        let tips: Vec<&str> = done.stderr.lines().filter(|line| line.contains("tip:")).collect();
        assert!(tips.len() == 1 && tips[0].contains(verb), "{word}: {done:?}");
    }
}

#[test]
fn a_task_goes_from_its_title_to_done_by_its_handle() {
    let provost = Provost::running();
    let board = provost.board();
    let first = provost.verb(["task", "add", "Lay the floor", "--priority", "high"]);
    assert_eq!((first.code, first.stdout.as_str()), (0, "TASK-001\n"), "{first:?}");
    let second = provost.verb([
        "task",
        "add",
        "Build the walls",
        "--description",
        "All four.",
        "--depends-on",
        "TASK-001",
        "--json",
    ]);
    assert_eq!(second.json()["handle"], "TASK-002");
    let shown = provost.verb(["task", "show", "task-002"]).stdout;
    assert!(shown.contains("depends on TASK-001") && shown.contains("All four."), "{shown}");

    let early = provost.verb(["task", "start", "TASK-002", "--executor", "fake"]);
    assert!(early.code != 0, "{early:?}");
    let first = provost.verb([
        "task",
        "start",
        "TASK-001",
        "--executor",
        "fake",
        "--prompt",
        "say laid",
        "--follow",
    ]);
    assert!(first.code == 0 && first.stdout.contains("laid"), "{first:?}");
    let done = provost.verb(["task", "done", "TASK-001", "--project", "scratch"]);
    assert!(done.stdout.starts_with("TASK-001 done"), "{done:?}");
    let second = provost.verb(["task", "start", "TASK-002", "--executor", "fake", "--json"]).json();
    let second = second["attempt_id"].as_str().unwrap();
    assert_eq!(provost.verb(["wait", second]).code, 0);
    assert_eq!(provost.verb(["task", "rm", "TASK-002"]).code, 0);
    assert_eq!(provost.verb(["task", "rm", "TASK-002"]).code, 4);
    assert_eq!(provost.verb(["status", second]).code, 0, "its attempts stay readable");
    assert_eq!(tasks(&provost), 1);
    drop(board);
}

#[test]
fn no_row_of_a_table_is_wider_than_the_terminal() {
    let script = "echo '{\"kind\":\"session\",\"id\":\"s\"}'";
    let provost =
        without_agents().executor("an-executor-with-a-rather-long-name", EVENTS, script).started();
    let board = provost.board();
    for title in [
        "A title that is much longer than a column of any table on any terminal should ever be",
        "修复登录页面的按钮并且确保所有的测试都能够通过然后再提交代码到主分支上面去等待审核",
        "🚀 ship it 🚀 and then ship it again and again until there is nothing left to ship at all",
    ] {
        let task = board.task(title);
        let prompt = json!({"prompt": "write x.txt hi"});
        board.start_at(&task, "an-executor-with-a-rather-long-name", &prompt).settled();
        board.start_at(&task, "fake", &prompt).settled();
    }
    for columns in ["80", "120"] {
        for words in [
            vec!["ps"],
            vec!["gc"],
            vec!["config", "show"],
            vec!["executors"],
            vec!["task", "list"],
            vec!["project", "list"],
            vec!["tools"],
            vec!["tools", "--errors"],
            vec!["inbox"],
        ] {
            let mut command = provost.command(&words);
            let done = Provost::done({
                command.env("COLUMNS", columns);
                command
            });
            assert_eq!(done.code, 0, "{done:?}");
            let most = columns.parse().unwrap();
            let wide = done.stdout.lines().find(|line| line.width() > most);
            assert_eq!(wide, None, "{words:?} on {columns} columns");
        }
    }
    // Where no terminal reads, nothing is cut.
    assert!(provost.verb(["ps"]).stdout.contains("should ever be"));
}

#[test]
fn ps_says_that_there_are_more_and_logs_takes_the_newest() {
    let provost = Provost::running();
    let board = provost.board();
    let attempts: Vec<_> =
        (0..21).map(|n| board.start("fake", &format!("say number {n}"))).collect();
    for attempt in &attempts {
        attempt.settled();
    }
    let listed = provost.verb(["ps"]);
    assert_eq!(listed.stdout.lines().count(), 21);
    assert!(listed.stderr.contains("20 of 21") && listed.stderr.contains("--all"), "{listed:?}");
    assert_eq!(provost.verb(["ps", "--all"]).stderr, "");
    let newest = provost.verb(["logs"]);
    assert!(newest.stdout.contains("number 20"), "{newest:?}");
    assert!(newest.stderr.contains(&attempts[20].id[28..]), "{newest:?}");
}

#[test]
fn all_that_runs_or_waits_is_stopped_at_once() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 2\nstop_grace_ms = 200");
    let provost = provost.started();
    assert!(provost.verb(["stop", "--all"]).stdout.contains("no attempt runs"));
    let board = provost.board();
    let attempts: Vec<_> =
        (0..3).map(|_| board.start("fake", "ignore-term\nsay up\nhang")).collect();
    wait_until("two run", || {
        attempts.iter().filter(|it| it.status()["phase"] == "running").count() == 2
    });
    let stopped = provost.verb(["stop", "all"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    for attempt in &attempts {
        assert!(stopped.stdout.contains(&attempt.id[28..]), "{stopped:?}");
        let phase = attempt.status()["phase"].clone();
        assert!(phase == "settled" || phase == "idle", "{phase}");
        attempt.leaves_no_process();
    }
    let ids: Vec<String> = attempts.iter().map(|attempt| attempt.id.clone()).collect();
    let json = provost.verb(["stop", "--all", "--json"]).json();
    assert_eq!(json, json!({"attempts": []}));
    // A person's stop is not a failure of the agent.
    let table = provost.verb(["ps"]).stdout;
    assert!(table.contains("stopped") && !table.contains("failed"), "{table}");
    let status = provost.verb(["status", &ids[0]]).stdout;
    assert!(status.contains("stopped") && !status.contains("failed"), "{status}");
    assert!(provost.verb(["wait", &ids[0]]).stdout.contains("stopped"));
}

#[test]
fn a_status_names_the_task_and_the_project_and_a_send_what_was_sent() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "say one");
    attempt.settled();
    let status = provost.verb(["status", &attempt.id]).stdout;
    assert!(status.contains("TASK-001 do something") && status.contains("scratch"), "{status}");
    let sent = provost.verb(["send", &attempt.id, "say two\nhang"]).stdout;
    assert!(sent.contains("turn started: say two"), "{sent}");
    attempt.has_said("two");
    let queued = provost.verb(["queue", &attempt.id, "say three"]).stdout;
    assert!(queued.contains("queued: say three") && queued.contains("queued behind"), "{queued}");
    let emptied = provost.verb(["queue", &attempt.id, "--cancel"]).stdout;
    assert!(emptied.contains("queue emptied"), "{emptied}");
    attempt.stop_by_force();
}

#[test]
fn what_is_empty_is_said_in_a_sentence() {
    let provost = Provost::running();
    for (words, said) in [
        (vec!["ps"], "no attempt yet"),
        (vec!["inbox"], "nothing in the inbox"),
        (vec!["approvals"], "no approvals are pending"),
        (vec!["project", "list"], "no project yet"),
        (vec!["gc"], "nothing to collect"),
    ] {
        let done = Provost::done(provost.command(&words));
        assert!(done.code == 0 && done.stdout.contains(said), "{done:?}");
        assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
    }
    let board = provost.board();
    for (words, said) in [(vec!["plan", "list"], "no plans"), (vec!["task", "list"], "no task yet")]
    {
        let done = Provost::done(provost.command(&words));
        assert!(done.code == 0 && done.stdout.contains(said), "{done:?}");
    }
    board.start("fake", "write x.txt hi").settled();
    let kept = provost.verb(["gc"]).stdout;
    assert!(kept.contains("1 kept, nothing to collect"), "{kept}");
}

#[test]
fn what_is_not_there_exits_with_4_and_what_is_there_already_with_5() {
    let provost = Provost::running();
    provost.board();
    for words in [
        ["user", "revoke", "nobody"],
        ["user", "renew", "nobody"],
        ["host", "drain", "nowhere"],
        ["host", "resume", "nowhere"],
        ["plan", "remove", "nowhere"],
    ] {
        let done = provost.verb(words);
        assert!(done.code == 4 && done.stderr.contains("There is no"), "{words:?}: {done:?}");
    }
    let add = || provost.verb(["user", "add", "ana", "--access", "read"]).code;
    assert_eq!((add(), add()), (0, 5));
}

#[test]
fn a_plan_that_says_something_else_is_a_conflict() {
    let provost = Provost::running();
    provost.board();
    let file = provost.path("plan.md");
    let add = || {
        let file = file.to_str().unwrap();
        provost.verb(["plan", "add", file, "--name", "app", "--version", "1"])
    };
    fs::write(&file, "# Colour\n\nIt is blue.\n").unwrap();
    assert_eq!(add().code, 0);
    assert_eq!(add().code, 0, "the same again");
    fs::write(&file, "# Colour\n\nIt is green.\n").unwrap();
    let conflict = add();
    assert!(conflict.code == 5 && conflict.stderr.contains("--replace"), "{conflict:?}");
}

#[test]
fn path_prints_where_the_work_is() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "write x.txt hello");
    attempt.settled();
    let printed = provost.verb(["path", &attempt.id[28..]]);
    let path = printed.stdout.strip_suffix('\n').unwrap();
    assert_eq!(fs::read_to_string(format!("{path}/x.txt")).unwrap().trim(), "hello");
    let name = board.repo().path.file_name().unwrap().to_str().unwrap();
    assert_eq!(provost.verb(["path", &attempt.id, name]).stdout, printed.stdout);
    assert_eq!(provost.verb(["path", &attempt.id, "nothing"]).code, 2);
    assert!(provost.verb(["status", &attempt.id]).stdout.contains(path));
    fs::remove_dir_all(path).unwrap();
    assert_eq!(provost.verb(["path", &attempt.id]).code, 4);
}

#[test]
fn path_of_several_repositories_is_their_folder_or_one_of_them() {
    let provost = Provost::running();
    let (front, back) = (provost.repo("front"), provost.repo("back"));
    let board = Board::new(&provost, vec![front, back]);
    let attempt = board.start("fake", "write front/x.txt hello");
    attempt.settled();
    let all = provost.verb(["path", &attempt.id]).stdout;
    let one = provost.verb(["path", &attempt.id, "front"]).stdout;
    assert_eq!(one, format!("{}/front\n", all.trim_end()));
    assert!(fs::exists(format!("{}/x.txt", one.trim_end())).unwrap());
}

#[test]
fn a_patch_of_a_file_needs_no_repository_name_where_there_is_one_repository() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "write more.txt More!");
    attempt.settled();
    for path in ["more.txt", "app/more.txt"] {
        let patch = provost.verb(["diff", &attempt.id, path]);
        assert!(patch.code == 0 && patch.stdout.contains("+More!"), "{path}: {patch:?}");
    }
}

//! The person's verbs: the walk through them, their JSON, their exit codes.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Done, Provost, run_until, wait_until};

#[test]
fn a_first_walk_needs_nothing_but_a_repository() {
    let provost = Provost::new();
    let repo = provost.repo("app");
    let path = repo.path.to_str().unwrap();

    let first = provost.verb(["init", path, "--json"]).json();
    let again = provost.verb(["init", path, "--json"]).json();
    assert_eq!(first, again);
    assert!(first["project_id"].is_string() && first["repo_id"].is_string());
    assert!(provost.verb(["init", path]).stdout.contains("already registered"));

    // The verbs have started a daemon in the background by now.
    let started = provost.verb(["run", "say hello there\nsay and goodbye", "--executor", "fake"]);
    assert_eq!(started.code, 0, "{started:?}");
    let attempt = started.stdout.trim();
    assert_eq!(attempt.len(), 36, "the attempt's id alone: {started:?}");
    let followed = provost.verb(["logs", "-f", attempt]);
    assert_eq!(followed.code, 0);
    for said in ["you", "hello there", "and goodbye", "completed (exit 0)"] {
        assert!(followed.stdout.contains(said), "{said}: {}", followed.stdout);
    }
    let status = provost.verb(["status", attempt, "--json"]).json();
    assert_eq!((&status["state"], &status["exit_code"]), (&json!("completed"), &json!(0)));
    assert!(provost.verb(["status", attempt]).stdout.contains("and goodbye"));

    let long = provost.verb(["run", "say up\nhang", "--json", "--executor", "fake"]).json();
    let attempt = long["attempt_id"].as_str().unwrap();
    let table = provost.verb(["ps"]).stdout;
    assert!(table.contains(&attempt[28..]) && table.contains("fake"), "{table}");
    let states = || -> Vec<Value> {
        let listed = provost.verb(["ps", "--json"]).json();
        listed["attempts"].as_array().unwrap().iter().map(|each| each["state"].clone()).collect()
    };
    assert_eq!(states(), ["running", "completed"], "newest first");
    let stopped = provost.verb(["stop", attempt]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(stopped.stdout.contains("stopped"), "{stopped:?}");
    assert_eq!(states(), ["failed", "completed"]);

    let projects = provost.verb(["project", "list", "--json"]).json();
    assert_eq!(projects["projects"][0]["name"], "app");
    let ended = provost.verb(["shutdown"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(provost.processes(), Vec::<i32>::new());
}

#[test]
fn several_repositories_make_a_project() {
    let provost = Provost::running();
    let (front, back) = (provost.repo("front"), provost.repo("back"));
    back.git(&["branch", "release"]);
    let done = provost.verb([
        "project",
        "add",
        "both",
        "--repo",
        front.path.to_str().unwrap(),
        "--repo",
        &format!("{}@release", back.path.display()),
        "--json",
    ]);
    let project = done.json()["project_id"].clone();
    let repos = provost.call("list_repos", &json!({"project_id": project}));
    let branches: Vec<&Value> =
        repos["repos"].as_array().unwrap().iter().map(|r| &r["default_target_branch"]).collect();
    assert_eq!(branches, ["main", "release"]);
}

#[test]
fn following_a_run_shows_it_live_and_tells_how_it_ended() {
    let provost = Provost::running();
    provost.board();
    let good = provost.verb(["run", "say fine", "--follow", "--executor", "fake"]);
    assert_eq!(good.code, 0);
    let bad = provost.verb(["run", "say so so\nexit 9", "--follow", "--executor", "fake"]);
    assert_eq!(bad.code, 7);
    assert!(bad.stdout.contains("failed (exit 9)"), "{bad:?}");
    let json = provost.verb(["run", "say fine", "--follow", "--json", "--executor", "fake"]);
    let entries: Vec<Value> =
        json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.first().unwrap()["kind"], "user_message");
    assert_eq!(entries.last().unwrap()["kind"], "process_end");
}

#[test]
fn logs_give_back_all_that_was_written() {
    let provost = Provost::running();
    let attempt = provost.board().start("fake", "lines 5000");
    attempt.settled();
    let raw = provost.verb(["logs", "--raw", &attempt.id]).stdout;
    let numbered = (1..=5000).map(|number| format!("line {number}"));
    assert!(raw.lines().skip(1).eq(numbered), "after the fake's own first line");
    let json = provost.verb(["logs", &attempt.id, "--json"]).stdout;
    assert_eq!(json.lines().count(), attempt.normalized().len());
    let few = provost.verb(["logs", &attempt.id, "--limit", "3", "--json"]).stdout;
    assert_eq!(few.lines().count(), 3);
}

#[test]
fn a_follower_of_the_log_lives_through_a_restart() {
    let provost = Provost::running();
    let gate = provost.path("gate");
    let wait = run_until(&gate);
    let attempt = provost.board().start("fake", &format!("say before\n{wait}\nsay after"));
    attempt.has_said("before");
    let done = std::thread::scope(|scope| {
        let mut command = provost.command(&["logs", "--follow", &attempt.id]);
        let shown = fs::File::create(provost.path("shown")).unwrap();
        let following = scope.spawn(move || command.stdout(shown).status().unwrap());
        let shown = || fs::read_to_string(provost.path("shown")).unwrap();
        wait_until("it shows the beginning", || shown().contains("before"));
        // The follower starts the next daemon itself.
        provost.kill();
        provost.is_started();
        fs::write(&gate, "").unwrap();
        following.join().unwrap()
    });
    assert_eq!(done.code(), Some(0));
    let shown = fs::read_to_string(provost.path("shown")).unwrap();
    assert_eq!(shown.matches("agent    before").count(), 1, "{shown}");
    assert_eq!(shown.matches("agent    after").count(), 1, "{shown}");
}

#[test]
fn any_tool_can_be_called() {
    let provost = Provost::running();
    let board = provost.board();
    let arguments = json!({"project_id": board.project_id, "title": "t"}).to_string();
    let task = provost.verb(["call", "create_task", &arguments]).json();
    assert!(task["task_id"].is_string());
    assert_eq!(provost.verb(["call", "list_projects"]).json()["has_more"], false);
    let refused = provost.verb(["call", "create_task", "{}"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    let envelope: Value = serde_json::from_str(&refused.stderr).unwrap();
    assert_eq!(envelope["code"], "missing_required");
    assert_eq!(envelope.as_object().unwrap().keys().next().unwrap(), "error");
}

#[test]
fn tools_are_listed_by_role_and_errors_too_without_a_daemon() {
    let provost = Provost::new();
    let errors = provost.verb(["tools", "--errors", "--json"]).json();
    let errors = errors["errors"].as_array().unwrap();
    assert!(errors.len() >= 29);
    assert!(errors.iter().all(
        |error| error["retryable"].is_boolean() && !error["hint"].as_str().unwrap().is_empty()
    ));
    assert_eq!(provost.processes(), Vec::<i32>::new());

    let names = |role: &str| -> Vec<String> {
        let listed = provost.verb(["tools", "--role", role, "--json"]).json();
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names("orchestrator").contains(&"start_task_attempt".to_owned()));
    assert!(!names("worker").contains(&"start_task_attempt".to_owned()));
    assert!(provost.verb(["tools"]).stdout.contains("start_task_attempt"));
    assert_eq!(provost.processes(), Vec::<i32>::new());
}

#[test]
fn exit_codes_say_what_kind_of_failure_it_was() {
    let provost = Provost::new();
    let nowhere = provost.path("nowhere");
    let code = |done: Done| {
        assert!(done.code == 0 || !done.stderr.is_empty(), "{done:?}");
        done.code
    };
    let none = "01900000-0000-7000-8000-000000000000";
    assert_eq!(code(provost.verb(["shutdown"])), 3);
    assert_eq!(code(provost.verb(["no-such-verb"])), 2);
    assert_eq!(code(provost.verb(["--version"])), 0);
    provost.start();
    assert_eq!(code(provost.verb(["run", "no project yet"])), 2);
    let board = provost.board();
    let task = board.task("x");
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "hang"}));

    assert_eq!(code(provost.verb(["init", nowhere.to_str().unwrap()])), 1);
    assert_eq!(code(provost.verb(["call", "list_projects", "{"])), 2);
    assert_eq!(code(provost.verb(["call", "list_projects", r#"{"limit":0}"#])), 1);
    assert_eq!(code(provost.verb(["status", "short"])), 2);
    for verb in ["status", "logs", "stop"] {
        assert_eq!(code(provost.verb([verb, none])), 4, "{verb}");
        assert_eq!(code(provost.verb([verb, "0123456789ab"])), 4, "{verb}");
    }
    assert_eq!(code(provost.verb(["run", "x", "--executor", "nobody"])), 4);
    assert_eq!(code(provost.verb(["run", "x", "--project", "nobody"])), 4);
    let delete = json!({"task_id": task}).to_string();
    assert_eq!(code(provost.verb(["call", "delete_task", &delete])), 5);
    attempt.stop();
    assert_eq!(code(provost.verb(["run", "exit 1", "--follow", "--executor", "fake"])), 7);
}

#[test]
fn a_piece_of_an_id_will_do() {
    let provost = Provost::running();
    let board = provost.board();
    let (one, _other) = (board.start("fake", "hang"), board.start("fake", "hang"));
    for piece in [&one.id[28..], &one.id[24..], &one.id[..], &one.id.to_uppercase()] {
        assert_eq!(provost.verb(["status", piece, "--json"]).json()["attempt_id"], *one.id);
    }
    // Ids begin with a clock, so those of one moment begin alike.
    let ambiguous = provost.verb(["status", &one.id[..8]]);
    assert_eq!(ambiguous.code, 2);
    assert!(ambiguous.stderr.contains(&one.id), "{ambiguous:?}");
}

#[test]
fn nothing_that_is_piped_has_colours_or_control_characters() {
    let provost = Provost::new().variable("CLICOLOR", "1").variable("TERM", "xterm").started();
    let attempt = provost.board().start("fake", "run printf '\\033[31mred\\033[0m'\nexit 2");
    attempt.settled();
    for done in [
        provost.verb(["ps", "--all"]),
        provost.verb(["status", &attempt.id]),
        provost.verb(["logs", &attempt.id]),
        provost.verb(["tools"]),
        provost.verb(["tools", "--errors"]),
        provost.verb(["config", "show"]),
        provost.verb(["project", "list"]),
        provost.verb(["status", "01900000-0000-7000-8000-000000000000"]),
        provost.verb(["--help"]),
    ] {
        let printed = done.stdout + &done.stderr;
        assert!(!printed.contains('\u{1b}'), "{printed:?}");
    }
}

#[test]
fn completions_are_scripts_for_each_shell() {
    let provost = Provost::new();
    for shell in ["bash", "zsh", "fish"] {
        let done = provost.verb(["completions", shell]);
        assert!(done.code == 0 && done.stdout.contains("provost"), "{shell}");
    }
}

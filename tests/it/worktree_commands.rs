//! A person's verbs: a shell and an editor in an attempt's worktree, the same task once more, and
//! changes of tasks and projects.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Attempt, Board, Provost, wait_until};

fn worktree(attempt: &Attempt) -> PathBuf {
    PathBuf::from(attempt.started["worktree"].as_str().unwrap())
}

fn with_shell(mut command: Command) -> Command {
    command.env("SHELL", "/bin/sh");
    command
}

#[test]
fn a_shell_is_in_the_worktree_with_the_attempts_variables_and_ports() {
    let provost = Provost::new()
        .config("[projects.scratch.repos.app]\nports = { names = ['WEB_PORT'] }")
        .started();
    let board = provost.board();
    let attempt = board.start("fake", "write a.txt hello");
    attempt.saved(1);
    let short = &attempt.id[attempt.id.len() - 8..];
    let line = "cat a.txt; pwd; echo $PROVOST_ATTEMPT_ID $WEB_PORT $MINE; exit 37";
    let mut command = with_shell(provost.command(&["shell", short, "-c", line]));
    command.env("MINE", "own");
    let done = Provost::done(command);
    assert_eq!(done.code, 37, "the shell's own: {done:?}");
    let port = attempt.status()["provision"]["ports"]["WEB_PORT"].as_u64().unwrap();
    let path = worktree(&attempt);
    let expected = format!("hello\n{}\n{} {port} own\n", path.display(), attempt.id);
    assert_eq!(done.stdout, expected);
    let answer = provost.verb(["shell", short, "--json"]).json();
    assert_eq!((&answer["path"], &answer["attempt_id"]), (&json!(path), &json!(attempt.id)));
    assert_eq!(answer["variables"]["WEB_PORT"], port.to_string());
    let mut killed = with_shell(provost.command(&["shell", short, "-c", "kill -9 $$"]));
    assert_eq!(killed.status().unwrap().signal(), Some(9), "this process is the shell");
}

#[test]
fn a_shell_and_an_editor_need_a_worktree_and_a_program() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("front"), provost.repo("back")]);
    let attempt = board.start("fake", "say hi");
    attempt.saved(1);
    let id = attempt.id.as_str();
    let pwd = |repository: &str| {
        let command = provost.command(&["shell", id, repository, "-c", "basename \"$PWD\""]);
        Provost::done(with_shell(command)).stdout
    };
    assert_eq!((pwd("front"), pwd("back")), ("front\n".to_owned(), "back\n".to_owned()));
    let missing = provost.verb(["shell", id, "middle"]);
    assert!(missing.code == 2 && missing.stderr.contains("back, front"), "{missing:?}");

    let nothing = provost.verb(["open", "--editor", id]);
    assert_eq!(nothing.code, 4, "{nothing:?}");
    assert!(nothing.stderr.contains("VISUAL or EDITOR"), "{nothing:?}");
    let editor = provost.script("my editor", "echo \"$1 $2\" > \"$PROVOST_HOME/opened\"\nexit 3");
    let mut command = provost.command(&["open", "--editor", id, "front"]);
    command.env("EDITOR", format!("'{}' --wait", editor.display()));
    assert_eq!(Provost::done(command).code, 3, "the editor's own");
    let opened = fs::read_to_string(provost.home().join("opened")).unwrap();
    assert!(opened.starts_with("--wait ") && opened.trim().ends_with("/front"), "{opened}");

    wait_until("it is collected", || {
        let report = provost.verb(["gc", "--json", "--yes"]).json();
        report["attempts"][0]["verdict"] == "collected"
    });
    for words in [&["shell", id][..], &["open", "--editor", id]] {
        let gone = Provost::done(provost.command(words));
        assert!(gone.code == 4 && gone.stderr.contains("provost send"), "{gone:?}");
    }
}

#[test]
fn a_retry_is_a_fresh_attempt_started_alike_or_a_turn_of_the_same_session() {
    let provost = Provost::running();
    let board = provost.board();
    board.repo().git(&["branch", "side"]);
    let repos = json!([{"repo_id": board.repo_ids[0], "target_branch": "side"}]);
    let first = json!({"prompt": "write a.txt x\nexit 3", "repos": repos});
    let attempt = board.start_with("fake", &first);
    assert_eq!(attempt.settled()["state"], "failed");
    let fresh = provost.verb(["retry", &attempt.id, "--json"]).json();
    let fresh = Attempt::new(&provost, fresh);
    assert_eq!(fresh.settled()["state"], "failed", "it does the same");
    assert_ne!(fresh.id, attempt.id);
    assert_eq!(fresh.started["task_id"], attempt.started["task_id"]);
    assert_eq!(fresh.status()["executor"], "fake");
    assert_eq!(fresh.said("user_message"), ["write a.txt x\nexit 3"]);
    fresh.saved(1);
    let side = provost.call("finish_attempt", &json!({"attempt_id": fresh.id, "action": "merge"}));
    assert_eq!(side["repos"][0]["target_branch"], "side");
    let followed = provost.verb(["retry", &attempt.id, "--fresh", "--follow"]);
    assert_eq!(followed.code, 7, "{followed:?}");

    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say last"});
    provost.call("follow_up", &send);
    attempt.until("it said so", |it| it["final_message"] == "last");
    attempt.settled();
    let again = provost.verb(["retry", &attempt.id, "--session"]);
    assert!(again.code == 0 && again.stdout.contains("turn started: say last"), "{again:?}");
    attempt.until("its third turn has ended", |it| {
        it["phase"] == "settled" && attempt.said("user_message").len() == 3
    });
    assert_eq!(attempt.said("user_message")[1..], ["say last", "say last"]);

    // A fork is begun from the same turn again.
    attempt.saved(3);
    let from = json!({"prompt": "run cat a.txt", "from_attempt_id": attempt.id, "from_turn": 1});
    let fork = board.start_with("fake", &from);
    fork.settled();
    let again = Attempt::new(&provost, provost.verb(["retry", &fork.id, "--json"]).json());
    again.settled();
    assert_eq!(again.said("tool_result"), ["x"]);
    for words in [vec!["retry", "01900000-0000-7000-8000-000000000000"], vec!["retry", "short"]] {
        let refused = Provost::done(provost.command(&words));
        assert!(refused.code != 0 && !refused.stderr.contains("_id"), "{refused:?}");
    }
}

#[test]
fn a_task_is_changed_by_its_handle() {
    let provost = Provost::running();
    let _board = provost.board();
    for title in ["Lay the floor", "Build the walls"] {
        assert_eq!(provost.verb(["task", "add", title]).code, 0);
    }
    let mut command = provost.command(&["task", "edit", "TASK-002", "--title", "Build walls"]);
    command.args(["--description", "All four.", "--priority", "high", "--depends-on", "TASK-001"]);
    let done = Provost::done(command);
    assert_eq!(done.stdout, "TASK-002 changed: Build walls\n", "{done:?}");
    let shown = || provost.verb(["task", "show", "TASK-002"]).stdout;
    let whole = shown();
    for said in ["Build walls", "All four.", "priority high", "depends on TASK-001"] {
        assert!(whole.contains(said), "{said}: {whole}");
    }
    let task = provost.verb([
        "task",
        "edit",
        "TASK-002",
        "--no-dependencies",
        "--status",
        "cancelled",
        "--json",
    ]);
    assert_eq!(task.json()["task"]["status"], "cancelled");
    assert!(!shown().contains("depends on"));
    let nothing = provost.verb(["task", "edit", "TASK-002"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    assert_eq!(provost.verb(["task", "edit", "TASK-009", "--title", "x"]).code, 4);
}

#[test]
fn a_project_is_removed_with_its_worktrees_and_nothing_of_a_persons() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "write precious.txt x\nrun sleep 1000");
    attempt.until("it works", |_| worktree(&attempt).join("precious.txt").exists());
    let remove = |more: &[&str]| {
        let mut command = provost.command(&["project", "rm", "scratch"]);
        command.args(more);
        Provost::done(command)
    };
    let refused = remove(&["--yes"]);
    assert!(refused.code != 0 && refused.stderr.contains("provost stop"), "{refused:?}");
    attempt.stop();
    attempt.saved(1);
    let dry = remove(&[]);
    assert!(dry.code == 0 && dry.stdout.contains("with --yes"), "{dry:?}");
    assert!(dry.stdout.contains("1 task") && worktree(&attempt).exists(), "{dry:?}");
    wait_until("it is removed", || remove(&["--yes", "--json"]).code != 1);
    assert!(!worktree(&attempt).exists());
    let listed = |verb: &str| provost.verb([verb, "list", "--json"]).json();
    assert_eq!(listed("project")["projects"], json!([]));
    assert_eq!(remove(&["--yes"]).code, 4, "it is gone");
    // Its attempts stay readable, and what it had is kept.
    assert_eq!(provost.verb(["status", &attempt.id]).code, 0);
    let kept = format!("refs/provost/snapshots/{}:precious.txt", attempt.id);
    assert_eq!(board.repo().git(&["show", &kept]), "x");
    assert_eq!(board.repo().attempt_branches().len(), 1);
    assert_eq!(board.repo().git(&["status", "--porcelain"]), "");
    let of_project = json!({"project_id": board.project_id});
    assert_eq!(provost.refusal("list_repos", &of_project)["code"], "project_not_found");
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say hi"});
    assert_eq!(provost.refusal("follow_up", &send)["code"], "task_not_found");
    let start = json!({"task_id": attempt.started["task_id"], "executor": "fake"});
    assert_eq!(provost.refusal("start_task_attempt", &start)["code"], "task_not_found");
    // The repository can be registered anew.
    let path = board.repo().path.to_str().unwrap();
    let again = provost.verb(["init", path, "--json"]).json();
    assert_ne!(again["project_id"], Value::Null);
    assert_ne!(again["project_id"], json!(board.project_id));
}

#[test]
fn a_removal_that_is_cut_off_can_be_made_again() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "write a.txt x");
    attempt.saved(1);
    for failpoint in
        ["collect.marked", "collect.moved", "remove_project.written", "remove_project.committed"]
    {
        wait_until("nothing of it is alive", || {
            let report = provost.verb(["project", "rm", "scratch", "--json"]).json();
            let worktrees = report["attempts"].as_array().unwrap();
            worktrees.iter().all(|it| it["verdict"] != "kept")
        });
        provost.kill();
        provost.start_to_die_at(failpoint);
        provost.verb(["project", "rm", "scratch", "--yes"]);
        assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
        provost.start();
        let is_removed = failpoint.ends_with("committed");
        let listed = provost.verb(["project", "list", "--json"]).json();
        assert_eq!(listed["projects"] == json!([]), is_removed, "{failpoint}");
    }
    assert!(!worktree(&attempt).exists());
    assert_eq!(board.repo().worktrees().len(), 1);
}

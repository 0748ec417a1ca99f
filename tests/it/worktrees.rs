//! What an attempt works in: its branch, its worktrees, its folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Attempt, Board, PLAIN, Provost, Repo};

fn short(attempt: &Attempt) -> String {
    attempt.id[attempt.id.len() - 8..].to_owned()
}

#[test]
fn branch_and_folder_are_named_by_the_short_id_and_the_title() {
    let provost = Provost::new().config("[worktrees]\nbranch_prefix = \"agents/\"").started();
    let board = provost.board();
    let task = board.task("Fix: the  Login/Logout bug!");
    let attempt = board.start_at(&task, "fake", &json!({"prompt": "run pwd"}));
    attempt.settled();
    let name = format!("{}-fix-the-login-logout-bug", short(&attempt));
    assert_eq!(attempt.started["workspace_branch"], format!("agents/{name}"));
    let worktree = provost.home().join("worktrees").join(name).join("app");
    assert_eq!(attempt.said("tool_result"), [worktree.to_str().unwrap()]);
    assert!(worktree.join(".git").is_file());
    let head = format!("agents/{}", worktree.parent().unwrap().file_name().unwrap().display());
    assert_eq!(git_in(board.repo(), &worktree, "--abbrev-ref"), head);
}

/// What HEAD of a worktree is.
fn git_in(repo: &Repo, worktree: &Path, how: &str) -> String {
    repo.git(&["-C", worktree.to_str().unwrap(), "rev-parse", how, "HEAD"])
}

fn worktree_of(attempt: &Attempt) -> PathBuf {
    PathBuf::from(attempt.said("tool_result")[0].clone())
}

#[test]
fn an_attempt_begins_at_the_tip_of_its_target_branch() {
    let provost = Provost::running();
    let board = provost.board();
    let repo = board.repo();
    let main = repo.git(&["rev-parse", "main"]);
    repo.git(&["checkout", "--quiet", "-b", "feature"]);
    let feature = repo.commit("feature.txt", "new\n");
    // What is checked out or changed in the repository itself doesn't matter.
    fs::write(repo.path.join("README.md"), "not committed\n").unwrap();
    let on_main = board.start("fake", "run pwd");
    let repos = json!([{"repo_id": board.repo_ids[0], "target_branch": "feature"}]);
    let on_feature = board.start_with("fake", &json!({"prompt": "run pwd", "repos": repos}));
    for (attempt, base, has_feature) in [(on_main, main, false), (on_feature, feature, true)] {
        attempt.settled();
        let worktree = worktree_of(&attempt);
        assert_eq!(git_in(repo, &worktree, "--verify"), base);
        assert_eq!(worktree.join("feature.txt").exists(), has_feature);
        assert_eq!(
            fs::read_to_string(worktree.join("README.md")).unwrap(),
            "a scratch repository\n"
        );
    }
    assert_eq!(fs::read_to_string(repo.path.join("README.md")).unwrap(), "not committed\n");
}

#[test]
fn an_attempt_in_two_repositories_runs_in_the_folder_that_holds_both() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("front"), provost.repo("back")]);
    let attempt = board.start("fake", "run pwd; ls\nwrite front/new.txt text");
    assert_eq!(attempt.settled()["state"], "completed");
    let said = attempt.said("tool_result");
    let lines: Vec<&str> = said[0].lines().collect();
    let folder = provost.home().join("worktrees").join(format!("{}-do-something", short(&attempt)));
    assert_eq!(lines, [folder.to_str().unwrap(), "back", "front"]);
    for (repo, name) in board.repos.iter().zip(["front", "back"]) {
        assert!(folder.join(name).join(".git").is_file());
        assert_eq!(
            repo.attempt_branches(),
            [attempt.started["workspace_branch"].as_str().unwrap()]
        );
    }
    assert!(folder.join("front/new.txt").exists());
    let one = board.start_with(
        "fake",
        &json!({"prompt": "run pwd", "repos": [{"repo_id": board.repo_ids[1]}]}),
    );
    one.settled();
    assert!(worktree_of(&one).ends_with("back"));
}

#[test]
fn a_branch_that_is_not_there_is_named_with_those_that_are() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("x");
    let start = json!({"task_id": task, "executor": "fake",
        "repos": [{"repo_id": board.repo_ids[0], "target_branch": "mian"}]});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert_eq!(refusal["code"], "branch_not_found");
    assert!(refusal["hint"].as_str().unwrap().contains("main"), "{refusal}");
    assert_eq!(board.repo().worktrees().len(), 1);
    let task = provost.call("get_task", &json!({"task_id": task}))["task"].clone();
    assert_eq!((&task["status"], &task["latest_attempt_id"]), (&json!("todo"), &Value::Null));
}

#[test]
fn a_repository_that_has_gone_is_a_failed_workspace_and_works_again_once_back() {
    let provost = Provost::running();
    let board = provost.board();
    let away = provost.path("away");
    fs::rename(&board.repo().path, &away).unwrap();
    let start = json!({"task_id": board.task("x"), "executor": "fake", "prompt": "say here"});
    let refusal = provost.refusal("start_task_attempt", &start);
    assert_eq!(refusal["code"], "workspace_failed");
    let path = board.repo().path.to_str().unwrap();
    assert!(refusal["message"].as_str().unwrap().contains(path), "{refusal}");
    fs::rename(away, &board.repo().path).unwrap();
    let started = provost.call("start_task_attempt", &start);
    assert_eq!(Attempt::new(&provost, started).settled()["state"], "completed");
}

#[test]
fn a_worktree_that_can_not_be_made_fails_the_attempt_with_the_reason() {
    let provost = Provost::running();
    let board = provost.board();
    // It leaves no room for the references of attempts.
    fs::write(board.repo().path.join(".git/refs/provost"), "").unwrap();
    let attempt = board.start("fake", "say never");
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.contains("refs/provost"), "{summary}");
    assert_eq!(attempt.raw(), Vec::<Value>::new());
    let entries = attempt.normalized();
    let kinds: Vec<_> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user_message", "error_message", "process_end"]);
}

#[test]
fn hooks_of_the_repository_neither_fail_nor_hold_up_a_start() {
    let provost = Provost::running();
    let board = provost.board();
    let hook = provost.script("hook", "exit 1");
    let hooks = board.repo().path.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::rename(hook, hooks.join("post-checkout")).unwrap();
    assert_eq!(board.start("fake", "say here").settled()["state"], "completed");
}

#[test]
fn a_repository_without_commits_is_refused() {
    let provost = Provost::running();
    let repo = provost.empty_repo("empty");
    let create = json!({"name": "x", "repos": [{"path": repo.path}]});
    let refusal = provost.refusal("create_project", &create);
    assert_eq!(refusal["code"], "branch_not_found");
    assert!(refusal["hint"].as_str().unwrap().contains("commit"), "{refusal}");
    repo.commit("a", "b");
    provost.call("create_project", &create);
}

#[test]
fn a_folder_that_is_no_repository_is_refused_by_its_path() {
    let provost = Provost::running();
    let folder = provost.path("folder");
    fs::create_dir(&folder).unwrap();
    for path in [folder, provost.path("missing")] {
        let create = json!({"name": "x", "repos": [{"path": path}]});
        let refusal = provost.refusal("create_project", &create);
        assert_eq!(refusal["code"], "invalid_argument");
        assert!(refusal["message"].as_str().unwrap().contains(path.to_str().unwrap()));
    }
}

#[test]
fn two_repositories_of_one_name_are_no_project() {
    let provost = Provost::running();
    let (one, other) = (provost.repo("one/app"), provost.repo("other/app"));
    let repos = json!([{"path": one.path}, {"path": other.path}]);
    let refusal = provost.refusal("create_project", &json!({"name": "x", "repos": repos}));
    assert_eq!(refusal["code"], "invalid_argument");
    let board = Board::new(&provost, vec![one]);
    let add = json!({"project_id": board.project_id, "path": other.path});
    assert_eq!(provost.refusal("add_repo", &add)["code"], "invalid_argument");
}

#[test]
fn uncommitted_work_outlives_the_attempt_and_the_daemon() {
    let provost = Provost::running();
    let attempt =
        provost.board().start("fake", "write work.txt precious\nrun pwd\nsay ready\nhang");
    attempt.has_said("ready");
    attempt.stop();
    let worktree = PathBuf::from(attempt.said("tool_result").last().unwrap());
    provost.kill_and_start();
    assert_eq!(fs::read_to_string(worktree.join("work.txt")).unwrap(), "precious\n");
}

/// The worktree of an attempt, as the test finds it.
fn worktree(attempt: &Attempt, provost: &Provost) -> PathBuf {
    let branch = attempt.status()["workspace_branch"].as_str().unwrap().to_owned();
    provost.home().join("worktrees").join(branch.trim_start_matches("provost/")).join("app")
}

#[test]
fn no_turn_begins_where_a_link_stands_in_place_of_the_worktree() {
    let provost = Provost::new().executor("agent", PLAIN, "echo ran > ran; echo done").started();
    let board = provost.board();
    let attempt = board.start("agent", "x");
    attempt.settled();
    let (worktree, kept) = (worktree(&attempt, &provost), provost.path("kept"));
    let (folder, elsewhere) = (worktree.parent().unwrap(), provost.path("elsewhere"));
    fs::create_dir_all(elsewhere.join("app")).unwrap();
    let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "y"});
    for (linked, to) in
        [(worktree.as_path(), board.repo().path.clone()), (folder, elsewhere.clone())]
    {
        fs::rename(linked, &kept).unwrap();
        symlink(&to, linked).unwrap();
        let refusal = provost.refusal("follow_up", &send);
        assert_eq!(refusal["code"], "workspace_failed", "{refusal}");
        assert!(refusal["message"].as_str().unwrap().contains("a link"), "{refusal}");
        fs::remove_file(linked).unwrap();
        fs::rename(&kept, linked).unwrap();
    }
    assert!(!board.repo().path.join("ran").exists() && !elsewhere.join("app/ran").exists());
    provost.call("follow_up", &send);
    attempt.until("it has run again", |status| {
        status["phase"] == "settled" && attempt.lines("stdout").len() == 2
    });
}

#[test]
fn a_queued_turn_whose_worktree_became_a_link_fails_and_runs_nowhere() {
    let provost = Provost::new();
    let gate = provost.path("gate");
    let script = format!("until [ -e {} ]; do sleep 0.02; done; echo ran >> ran", gate.display());
    let provost = provost.executor("agent", PLAIN, &script).started();
    let board = provost.board();
    let attempt = board.start("agent", "x");
    attempt.in_phase("running");
    let queue = json!({"attempt_id": attempt.id, "action": "queue", "prompt": "y"});
    provost.call("follow_up", &queue);
    let worktree = worktree(&attempt, &provost);
    fs::rename(&worktree, provost.path("kept")).unwrap();
    symlink(&board.repo().path, &worktree).unwrap();
    fs::write(&gate, "").unwrap();
    let status = attempt.until("the second turn has ended", |status| {
        status["phase"] == "settled" && status["queued_follow_ups"] == 0
    });
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["failure_summary"].as_str().unwrap().contains("a link"), "{status}");
    assert!(!board.repo().path.join("ran").exists());
}

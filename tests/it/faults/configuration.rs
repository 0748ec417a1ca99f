//! Faults of what Provost is given: its configuration, and the repositories it works in.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::{Attempt, Board, PLAIN, Provost, processes, wait_until};

/// A home with an executor `agent` that waits for `gate` and exits with 3.
fn with_a_gate() -> Provost {
    let provost = Provost::new();
    let gate = provost.path("gate");
    let script = format!("until [ -e {} ]; do sleep 0.02; done; exit 3", gate.display());
    provost.executor("agent", PLAIN, &script).started()
}

fn open_gate(provost: &Provost) {
    fs::write(provost.path("gate"), "").unwrap();
}

fn send(attempt: &Attempt) -> serde_json::Value {
    json!({"attempt_id": attempt.id, "action": "send", "prompt": "go on"})
}

fn worktree(provost: &Provost, attempt: &Attempt) -> PathBuf {
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    provost.home().join("worktrees").join(branch.strip_prefix("provost/").unwrap()).join("app")
}

#[test]
fn a_configuration_edited_to_nonsense_harms_nothing_that_runs() {
    let provost = with_a_gate();
    let board = provost.board();
    let attempt = board.start("agent", "wait");
    attempt.in_phase("running");
    let leader = attempt.leader();
    let config = provost.home().join("config.toml");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{good}\n[daemon]\nmax_running_attempts = \"many\"\n")).unwrap();
    assert_eq!(provost.verb(["ps"]).code, 0, "what asks the daemon works");
    assert_eq!(provost.verb(["status", &attempt.id]).code, 0);
    assert_eq!(board.start("fake", "say still").settled()["state"], "completed");
    let line = good.lines().count() + 3;
    provost.kill();
    for done in [provost.fails_to_start(), provost.verb(["ps"])] {
        assert!(done.stderr.contains(&format!("config.toml:{line}")), "{done:?}");
        assert!(done.stderr.contains("daemon.max_running_attempts"), "{done:?}");
    }
    assert!(processes::parent(leader).is_some(), "the executor is alive");
    fs::write(&config, good).unwrap();
    provost.start();
    open_gate(&provost);
    assert_eq!(attempt.settled()["exit_code"], 3);
}

#[test]
fn an_executor_taken_out_of_the_configuration_ends_its_turn_in_order() {
    let provost = with_a_gate();
    let board = provost.board();
    let attempt = board.start("agent", "wait");
    attempt.in_phase("running");
    let leader = attempt.leader();
    provost.kill();
    fs::write(provost.home().join("config.toml"), "").unwrap();
    provost.start();
    assert_eq!(attempt.status()["phase"], "running");
    assert_eq!(attempt.leader(), leader);
    open_gate(&provost);
    assert_eq!(attempt.settled()["exit_code"], 3);
    assert_eq!(provost.refusal("follow_up", &send(&attempt))["code"], "executor_not_found");
}

#[test]
fn a_worktree_deleted_by_hand_is_reported_and_made_again_by_the_next_turn() {
    let provost = with_a_gate();
    let board = provost.board();
    let attempt = board.start("agent", "wait");
    attempt.in_phase("running");
    fs::remove_dir_all(worktree(&provost, &attempt)).unwrap();
    let ask = json!({"attempt_id": attempt.id});
    let refusal = provost.refusal("get_attempt_changes", &ask);
    assert_eq!(refusal["code"], "workspace_failed", "{refusal}");
    open_gate(&provost);
    assert_eq!(attempt.settled()["exit_code"], 3, "who runs in it runs on");
    provost.call("follow_up", &send(&attempt));
    // It is made again, as it was when it was made.
    attempt.saved(2);
    assert!(worktree(&provost, &attempt).join("README.md").exists());
    assert_eq!(attempt.status()["exit_code"], 3);
    assert_eq!(board.start("fake", "say well").settled()["state"], "completed");
}

#[test]
fn a_repository_moved_away_leaves_attempts_and_lists_readable_and_a_follow_up_runs() {
    let provost = with_a_gate();
    let board = provost.board();
    open_gate(&provost);
    let attempt = board.start("agent", "one");
    attempt.settled();
    fs::rename(&board.repo().path, provost.path("away")).unwrap();
    let repos = provost.call("list_repos", &json!({"project_id": board.project_id}));
    assert_eq!(repos["repos"][0]["path"], board.repo().path.to_str().unwrap());
    provost.call("follow_up", &send(&attempt));
    assert_eq!(
        attempt.until("both turns are over", |status| { status["phase"] == "settled" })["exit_code"],
        3
    );
    fs::rename(provost.path("away"), &board.repo().path).unwrap();
    assert_eq!(board.start("agent", "two").settled()["exit_code"], 3);
}

#[test]
fn a_git_that_hangs_holds_up_its_own_repository_alone_and_no_stop() {
    let provost = Provost::running();
    let stuck = provost.repo("stuck");
    stuck.commit(".gitattributes", "* filter=slow\n");
    let gate = provost.path("gate");
    let filter = format!("until [ -e {} ]; do sleep 0.02; done; cat", gate.display());
    let filter = provost.script("filter", &filter);
    provost.person_configures(&format!("[filter \"slow\"]\n\tsmudge = {}\n", filter.display()));
    let (board, other) = (Board::new(&provost, vec![stuck]), provost.board());
    let attempt = board.start("fake", "say never");
    attempt.in_phase("preparing");
    assert_eq!(other.start("fake", "say well").settled()["state"], "completed");
    let stopped = attempt.stop();
    assert_eq!((&stopped["stopped"], &stopped["phase"]), (&json!(true), &json!("settled")));
    attempt.leaves_no_process();
    let second = board.start("fake", "say at last");
    second.in_phase("preparing");
    open_gate(&provost);
    assert_eq!(second.settled()["state"], "completed");
    assert_eq!(second.said("assistant_message"), ["at last"]);
}

#[test]
fn a_lock_that_a_dead_git_left_blocks_no_start_read_or_follow_up() {
    // Killed with the index locked; the next turn commits.
    let script = "lock=\"$(git rev-parse --git-dir)/index.lock\"\n\
        if [ -e new.txt ]; then git add . && git -c user.name=a -c user.email=a@b commit -qm new\n\
        else echo text > new.txt; : > \"$lock\"; echo locked; exec sleep 1000; fi";
    let provost = Provost::new().executor("agent", PLAIN, script).started();
    let board = provost.board();
    fs::write(board.repo().path.join(".git/index.lock"), "").unwrap();
    let attempt = board.start("agent", "begin");
    attempt.has_said("locked");
    attempt.stop_by_force();
    let changes = provost.call("get_attempt_changes", &json!({"attempt_id": attempt.id}));
    assert_eq!(changes["files"][0]["path"], "app/new.txt");
    provost.call("follow_up", &send(&attempt));
    let status = attempt.until("it has committed", |status| status["state"] != "running");
    assert_eq!(status["state"], "completed", "{status}: {:?}", attempt.lines("stderr"));
    let branch = attempt.started["workspace_branch"].as_str().unwrap();
    wait_until("the branch is taken over", || {
        board.repo().git(&["log", "-1", "--format=%s", branch]) == "new"
    });
    assert!(board.repo().path.join(".git/index.lock").exists(), "the person's own is not ours");
}

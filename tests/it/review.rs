//! How a task's status follows its attempts, and where their worktrees are.

use serde_json::{Value, json};

use crate::harness::{Attempt, Board, Provost, run_until};

fn status(provost: &Provost, task: &str) -> Value {
    provost.call("get_task", &json!({"task_id": task}))["task"]["status"].clone()
}

fn set(provost: &Provost, task: &str, status: &str) {
    provost.call("update_task", &json!({"task_id": task, "status": status}));
}

fn follow_up(provost: &Provost, attempt: &Attempt<'_>, prompt: &str) {
    let arguments = json!({"action": "send", "attempt_id": attempt.id, "prompt": prompt});
    provost.call("follow_up", &arguments);
}

#[test]
fn a_task_is_in_review_once_its_last_attempt_has_settled_and_one_has_completed() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("two tries");
    let gate = provost.path("gate");
    let slow = json!({"prompt": format!("{}\nexit 3", run_until(&gate))});
    let slow = board.start_at(&task, "fake", &slow);
    slow.in_phase("running");
    let quick = board.start_at(&task, "fake", &json!({"prompt": "say done"}));
    assert_eq!(quick.settled()["state"], "completed");
    assert_eq!(status(&provost, &task), "inprogress", "one of them runs");
    std::fs::write(&gate, "").unwrap();
    assert_eq!(slow.settled()["state"], "failed");
    assert_eq!(status(&provost, &task), "inreview");
    // What is sent back to the agent is in progress again.
    follow_up(&provost, &quick, "hang");
    assert_eq!(status(&provost, &task), "inprogress");
    quick.in_phase("running");
    quick.stop();
    assert_eq!(status(&provost, &task), "inprogress", "nothing new is to be looked at");
    follow_up(&provost, &quick, "say better");
    quick.settled();
    assert_eq!(status(&provost, &task), "inreview");
}

#[test]
fn an_attempt_that_failed_leaves_its_task_in_progress() {
    let provost = Provost::running();
    let board = provost.board();
    let task = board.task("a failure");
    assert_eq!(
        board.start_at(&task, "fake", &json!({"prompt": "exit 1"})).settled()["state"],
        "failed"
    );
    assert_eq!(status(&provost, &task), "inprogress");
    // A round that was sent back does not count for the next one.
    let round = |prompt: &str| board.start_at(&task, "fake", &json!({"prompt": prompt})).settled();
    round("say done");
    assert_eq!(status(&provost, &task), "inreview");
    set(&provost, &task, "todo");
    round("exit 1");
    assert_eq!(status(&provost, &task), "inprogress");
}

#[test]
fn a_status_that_somebody_has_set_meanwhile_is_left_alone() {
    let provost = Provost::running();
    let board = provost.board();
    for set_to in ["todo", "inprogress", "inreview", "done", "cancelled"] {
        let task = board.task(set_to);
        let gate = provost.path(&format!("gate-{set_to}"));
        let attempt = board.start_at(&task, "fake", &json!({"prompt": run_until(&gate)}));
        attempt.in_phase("running");
        set(&provost, &task, set_to);
        std::fs::write(&gate, "").unwrap();
        assert_eq!(attempt.settled()["state"], "completed");
        assert_eq!(status(&provost, &task), set_to);
    }
}

#[test]
fn a_task_is_in_review_also_when_the_daemon_dies_as_its_attempt_settles() {
    for failpoint in ["settled.written", "settled.committed"] {
        let provost = Provost::running();
        let board = provost.board();
        let task = board.task("to be settled");
        let gate = provost.path("gate");
        let attempt = board.start_at(&task, "fake", &json!({"prompt": run_until(&gate)}));
        attempt.in_phase("running");
        provost.kill();
        provost.start_to_die_at(failpoint);
        std::fs::write(&gate, "").unwrap();
        assert_eq!(provost.ended(), None, "{failpoint}: killed by a signal");
        provost.start();
        assert_eq!(attempt.settled()["state"], "completed");
        assert_eq!(status(&provost, &task), "inreview", "{failpoint}");
    }
}

#[test]
fn every_answer_about_an_attempt_tells_its_worktree() {
    let provost = Provost::running();
    let board = provost.board();
    let attempt = board.start("fake", "run pwd");
    attempt.settled();
    let worktree = json!(attempt.said("tool_result")[0]);
    let id = json!({"attempt_id": attempt.id});
    let task = attempt.status()["task_id"].clone();
    let listed = provost.call("list_task_attempts", &json!({"task_id": task}));
    let next = json!({"attempt_id": attempt.id, "action": "send", "prompt": "hang"});
    let answers = [
        attempt.started.clone(),
        attempt.status(),
        listed["attempts"][0].clone(),
        provost.call("follow_up", &next),
        provost.call("stop_attempt", &id),
        provost.verb(["ps", "--all", "--json"]).json()["attempts"][0].clone(),
    ];
    for answer in answers {
        assert_eq!(answer["worktree"], worktree, "{answer}");
    }
    let mut inside = provost.inside(&attempt.id);
    inside.initialize();
    assert_eq!(inside.call("get_context", &json!({})).output()["worktree"], worktree);
}

#[test]
fn the_worktrees_of_several_repositories_are_shown_by_name() {
    let provost = Provost::running();
    let board = Board::new(&provost, vec![provost.repo("front"), provost.repo("back")]);
    let attempt = board.start("fake", "say done");
    attempt.settled();
    let worktrees = attempt.status()["worktree"].clone();
    for name in ["front", "back"] {
        let path = worktrees[name].as_str().unwrap();
        assert!(path.ends_with(name) && std::path::Path::new(path).is_dir(), "{worktrees}");
    }
}

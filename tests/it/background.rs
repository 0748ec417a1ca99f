//! Agents that go on by themselves after an answer, that ask questions of their own, and whose lines are
//! odd: when their turns end, and as what.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::acp;
use crate::conversations::{pending, with_agent};
use crate::harness::{Attempt, Board, Provost, eventually, processes};

fn says(attempt: &Attempt<'_>, text: &str) {
    eventually("its log says so", || {
        attempt.said("system_message").iter().any(|said| said.contains(text)).then_some(())
    });
}

/// A turn whose agent has answered, and waits for the file that is returned.
fn between<'p>(provost: &'p Provost, board: &Board<'p>) -> (Attempt<'p>, PathBuf) {
    let go = provost.home().join("go");
    let prompt = format!("background {}\nsay the final answer", go.display());
    let attempt = board.start("agent", &prompt);
    says(&attempt, "goes on by itself when this has ended: ");
    let status = attempt.status();
    assert_eq!((&status["phase"], &status["state"]), (&json!("running"), &json!("running")));
    (attempt, go)
}

#[test]
fn a_turn_lasts_as_long_as_what_its_agent_has_begun() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let (attempt, go) = between(&provost, &provost.board());
    // Over a restart of the daemon too.
    provost.kill_and_start();
    assert_eq!(attempt.status()["phase"], "running");
    std::fs::write(go, "").unwrap();
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    assert_eq!(status["final_message"], "the final answer");
    let both = json!({"input_tokens": 6, "output_tokens": 10, "cost_usd": 0.5});
    assert_eq!(status["usage"], both, "of both rounds");
    assert_eq!(attempt.said("process_end"), ["exit code 0"]);
}

#[test]
fn what_ran_in_the_background_and_was_cut_off_is_named() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let board = provost.board();
    let (attempt, _) = between(&provost, &board);
    processes::kill_hard(attempt.leader());
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    let why = status["failure_summary"].as_str().unwrap();
    assert!(why.starts_with("what ran in the background was cut off: wait for go"), "{why}");

    let (attempt, _) = between(&provost, &board);
    attempt.stop();
    let status = attempt.settled();
    assert_eq!(status["state"], "failed");
    let why = status["failure_summary"].as_str().unwrap();
    assert!(why.contains("stopped by") && why.contains("wait for go"), "{why}");
}

#[test]
fn an_agent_over_acp_goes_on_by_itself_too() {
    let Some(provost) = acp::with_agent() else { return };
    let (attempt, go) = between(&provost, &provost.board());
    std::fs::write(go, "").unwrap();
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    assert_eq!(status["final_message"], "admittedthe final answer");
}

#[test]
fn half_a_character_does_not_keep_a_turn_open() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let end = r#"{"type":"result","session_id":"s","subtype":"success","is_error":false,"result":"cut \ud83d","usage":{"input_tokens":3,"output_tokens":5}}"#;
    let attempt = provost.board().start("agent", &format!("raw {end}"));
    let status = attempt.settled();
    assert_eq!(status["state"], "completed", "{status}");
    assert_eq!(status["final_message"], "cut \u{fffd}");
}

fn answer(provost: &Provost, asked: &Value, more: (&str, &str)) {
    provost.call("answer", &json!({"approval_id": asked["approval_id"], more.0: more.1}));
}

fn refusal(provost: &Provost, asked: &Value, more: (&str, &str)) -> Value {
    let given = json!({"approval_id": asked["approval_id"], more.0: more.1});
    provost.refusal("answer", &given)
}

#[test]
fn a_question_of_an_agent_is_answered_with_one_of_its_options() {
    let Some(provost) = acp::with_agent() else { return };
    let attempt = provost.board().start("agent", "choose Which color?");
    let asked = pending(&provost, &attempt);
    assert_eq!(asked["text"], "Which color?");
    assert_eq!(asked["question"], json!({"options": ["red", "blue"], "is_open": false}));
    // Nothing is chosen in a person's name.
    let refused = refusal(&provost, &asked, ("decision", "approve"));
    assert!(refused["hint"].as_str().unwrap().contains("one of red, blue"), "{refused}");
    let refused = refusal(&provost, &asked, ("answer", "green"));
    assert!(refused["hint"].as_str().unwrap().contains("one of red, blue"), "{refused}");
    answer(&provost, &asked, ("answer", "blue"));
    assert_eq!(attempt.settled()["final_message"], "heard blue None");
    says(&attempt, "answered: Which color?: blue");
}

#[test]
fn an_open_question_takes_any_answer_or_none() {
    let Some(provost) = acp::with_agent() else { return };
    let board = provost.board();
    let attempt = board.start("agent", "type Which color?");
    let asked = pending(&provost, &attempt);
    assert_eq!(asked["question"], json!({"options": ["red", "blue"], "is_open": true}));
    let id = asked["approval_id"].as_str().unwrap();
    let done = provost.verb(["answer", id, "green"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(attempt.settled()["final_message"], "heard ok green");

    let attempt = board.start("agent", "type Which color?");
    let asked = pending(&provost, &attempt);
    answer(&provost, &asked, ("decision", "deny"));
    assert_eq!(attempt.settled()["final_message"], "heard no None");
}

#[test]
fn a_permission_takes_no_answer() {
    let Some(provost) = acp::with_agent() else { return };
    let attempt = provost.board().start("agent", "edit a.txt text");
    let asked = pending(&provost, &attempt);
    assert_eq!(asked["question"], Value::Null);
    let refused = refusal(&provost, &asked, ("answer", "yes"));
    assert!(
        refused["hint"].as_str().unwrap().contains("with decision instead of answer"),
        "{refused}"
    );
    answer(&provost, &asked, ("decision", "approve"));
    assert_eq!(attempt.settled()["final_message"], "selected");
}

#[test]
fn a_fork_right_after_a_wait_begins_from_the_last_turn() {
    let provost = Provost::running();
    let board = provost.board();
    for round in 0..5 {
        let attempt = board.start("fake", "write one.txt 1");
        wait(&provost, &attempt);
        let send = json!({"attempt_id": attempt.id, "action": "send", "prompt": "write two.txt 2"});
        provost.call("follow_up", &send);
        wait(&provost, &attempt);
        let of_turn = json!({"attempt_id": attempt.id, "to_turn": 2});
        let files = provost.call("get_attempt_changes", &of_turn)["files"].clone();
        assert_eq!(files.as_array().unwrap().len(), 2, "round {round}");
        let fork = board.start_with(
            "fake",
            &json!({"from_attempt_id": attempt.id, "prompt": "run cat two.txt"}),
        );
        assert_eq!(fork.settled()["state"], "completed", "round {round}");
        let branch = attempt.started["workspace_branch"].as_str().unwrap();
        board.repo().git(&["rev-parse", "--verify", "--quiet", branch]);
    }
}

fn wait(provost: &Provost, attempt: &Attempt<'_>) {
    let wait = json!({"attempt_ids": [attempt.id], "timeout_ms": 60_000});
    let waited = provost.call("wait_for_attempts", &wait);
    assert_eq!(waited["attempts"][0]["phase"], "settled", "{waited}");
}

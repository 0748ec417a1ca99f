//! Executors that are spoken to: what is said to them, what they ask for, how
//! they are interrupted, and what a limit of theirs does. The agent is scripted
//! and speaks Claude Code's two-way protocol.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::harness::{Attempt, Provost, eventually, has_python, processes, wait_until};

const AGENT: &str = include_str!("agents/stream_json.py");

/// Provost with the agent, and more of a configuration for it. `None` without Python.
pub fn with_agent(config: &str) -> Option<Provost> {
    if !has_python() {
        return None;
    }
    let provost = Provost::new();
    let path = provost.path("agent.py");
    fs::write(&path, AGENT).unwrap();
    let script = format!("exec python3 {} \"$@\"", path.display());
    Some(provost.executor("agent", "claude", &script).config(config))
}

/// What the agents of a home have heard, line by line.
fn heard(provost: &Provost) -> Vec<Value> {
    let text = fs::read_to_string(provost.home().join("heard")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How often the agents heard an answer to the request.
fn answers(provost: &Provost, request: &str) -> usize {
    let is_it = |line: &&Value| line["response"]["request_id"] == request;
    heard(provost).iter().filter(is_it).count()
}

pub fn pending(provost: &Provost, attempt: &Attempt<'_>) -> Value {
    eventually("it asks for permission", || {
        let asked = json!({"attempt_id": attempt.id});
        let listed = provost.call("list_inbox", &asked);
        listed["approvals"].get(0).cloned()
    })
}

fn waits(attempt: &Attempt<'_>) -> Value {
    attempt.until("it waits for an answer", |status| status["phase"] == "waiting")
}

#[test]
fn a_turn_is_a_conversation_that_the_terminal_event_ends() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", "say hello");
    let status = attempt.settled();
    assert_eq!(
        (&status["state"], &status["final_message"]),
        (&json!("completed"), &json!("hello"))
    );
    assert_eq!(status["usage"], json!({"input_tokens": 3, "output_tokens": 5, "cost_usd": 0.5}));
    let follow_up = json!({"action": "send", "attempt_id": attempt.id, "prompt": "say again"});
    provost.call("follow_up", &follow_up);
    let status = attempt.settled();
    assert_eq!(status["final_message"], "again");
    let both = json!({"input_tokens": 6, "output_tokens": 10, "cost_usd": 1.0});
    assert_eq!(status["usage"], both, "what its turns used, all together");
    let listed = provost.call("get_attempt_status", &json!({"attempt_ids": [attempt.id]}));
    assert_eq!(listed["attempts"][0]["usage"], both);
    let entries = attempt.normalized();
    let resumed = entries.iter().filter(|entry| entry["kind"] == "process_start").nth(1).unwrap();
    assert!(resumed["text"].as_str().unwrap().contains("--resume s"), "{resumed}");
    assert_eq!(heard(&provost).len(), 4, "each turn begins with two messages");
}

#[test]
fn a_permission_is_waited_for_and_passed_on_once_it_is_given() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", "ask make\nsay done");
    let asked = pending(&provost, &attempt);
    assert_eq!(asked["action"], json!({"type": "command", "command": "make"}));
    assert_eq!((&asked["tool_name"], &asked["status"]), (&json!("Bash"), &json!("pending")));
    let status = waits(&attempt);
    assert_eq!((&status["state"], &status["waiting_on"]), (&json!("running"), &json!("approval")));
    let approve = json!({"approval_id": asked["approval_id"], "decision": "approve"});
    let first = provost.call("answer", &approve);
    assert_eq!(first["status"], "approved");
    assert_eq!(provost.call("answer", &approve), first, "the same again is the same");
    let settled = attempt.settled();
    assert_eq!(settled["state"], "completed");
    assert!(!settled["next_action"].to_string().contains("denied"), "{settled}");
    assert_eq!(attempt.said("assistant_message"), ["allowed make", "done"]);
    let notices = attempt.said("system_message");
    assert!(notices.iter().any(|text| text == "asks for permission: Bash make"), "{notices:?}");
    assert!(notices.iter().any(|text| text == "approved: Bash make"), "{notices:?}");
    assert_eq!(answers(&provost, "ask0"), 1);
    let none = provost.call("list_inbox", &json!({}));
    assert_eq!(none["approvals"], json!([]), "none is pending");
}

#[test]
fn a_denial_reaches_the_agent_with_its_reason_and_stands() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", "ask rm -rf build");
    let id = pending(&provost, &attempt)["approval_id"].clone();
    let deny = json!({"approval_id": id, "decision": "deny", "reason": "keep it"});
    assert_eq!(provost.call("answer", &deny)["reason"], "keep it");
    let next = attempt.settled()["next_action"].to_string();
    assert!(next.contains("was denied") && next.contains("follow_up"), "{next}");
    assert_eq!(attempt.said("assistant_message"), ["denied rm -rf build: keep it"]);
    let approve = json!({"approval_id": id, "decision": "approve"});
    let refusal = provost.refusal("answer", &approve);
    assert_eq!(refusal["code"], "idempotency_conflict");
    let unknown = json!({"approval_id": attempt.id, "decision": "approve"});
    assert_eq!(provost.refusal("answer", &unknown)["code"], "invalid_argument");
}

#[test]
fn a_permission_outlives_the_daemon_that_was_asked() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", "ask make\nsay done");
    let asked = pending(&provost, &attempt);
    provost.kill_and_start();
    waits(&attempt);
    assert_eq!(pending(&provost, &attempt), asked);
    let deny = json!({"approval_id": asked["approval_id"], "decision": "deny", "request_id": "d"});
    let first = provost.call("answer", &deny);
    provost.kill_and_start();
    assert_eq!(provost.call("answer", &deny), first);
    assert_eq!(attempt.settled()["state"], "completed");
    assert_eq!(answers(&provost, "ask0"), 1);
}

#[test]
fn a_daemon_that_dies_between_a_verdict_and_its_telling_tells_it_later() {
    for moment in ["verdict.written", "verdict.committed", "said.written@3"] {
        let Some(provost) = with_agent("") else { return };
        provost.start_to_die_at(moment);
        let attempt = provost.board().start("agent", "ask make\nsay done");
        let id = pending(&provost, &attempt)["approval_id"].clone();
        let approve = json!({"approval_id": id, "decision": "approve", "request_id": "a"});
        let mut client = provost.bridge();
        client.initialize();
        let call = client.begin("answer", &approve);
        provost.ended();
        provost.start();
        let answer = client.outcome(call).unwrap().output();
        assert_eq!(answer["status"], "approved", "{moment}");
        assert_eq!(attempt.settled()["state"], "completed", "{moment}");
        assert_eq!(answers(&provost, "ask0"), 1, "{moment}");
    }
}

#[test]
fn nothing_is_said_twice_however_often_the_daemon_dies() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let script = [0, 1, 2, 3, 4, 5].map(|number| format!("ask step {number}")).join("\n");
    let attempt = provost.board().start("agent", &script);
    for number in 0..6 {
        provost.kill_and_start();
        let asked = eventually("the next step", || {
            let asked = pending(&provost, &attempt);
            (asked["action"]["command"] == format!("step {number}")).then_some(asked)
        });
        let approve = json!({"approval_id": asked["approval_id"], "decision": "approve"});
        provost.call("answer", &approve);
        provost.kill_and_start();
    }
    assert_eq!(attempt.settled()["state"], "completed");
    let mut heard = heard(&provost);
    let count = heard.len();
    heard.dedup();
    assert_eq!((count, heard.len()), (8, 8), "initialize, the prompt, six verdicts");
    let approved = attempt.said("system_message");
    let approved = approved.iter().filter(|text| text.starts_with("approved: Bash step"));
    assert_eq!(approved.count(), 6);
}

#[test]
fn a_permission_that_is_not_answered_is_denied() {
    let Some(provost) = with_agent("[approvals]\ntimeout_secs = 1").map(Provost::started) else {
        return;
    };
    let attempt = provost.board().start("agent", "ask make");
    attempt.settled();
    assert_eq!(attempt.said("assistant_message"), ["denied make: no one answered within 1 s"]);
    let all = json!({"attempt_id": attempt.id, "status": "all"});
    assert_eq!(provost.call("list_inbox", &all)["approvals"][0]["status"], "denied");
}

#[test]
fn a_denial_names_the_time_that_the_request_had_whatever_is_configured_by_then() {
    let config = "[approvals]\ntimeout_secs = 5";
    let Some(provost) = with_agent(config).map(Provost::started) else { return };
    let attempt = provost.board().start("agent", "ask make");
    pending(&provost, &attempt);
    provost.kill();
    let file = provost.home().join("config.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("timeout_secs = 5", "timeout_secs = 0")).unwrap();
    provost.start();
    attempt.settled();
    assert_eq!(attempt.said("assistant_message"), ["denied make: no one answered within 5 s"]);
}

#[test]
fn a_permission_that_can_not_be_written_down_is_denied() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let board = provost.board();
    provost.sql(&["CREATE TRIGGER no BEFORE INSERT ON approvals \
                   BEGIN SELECT RAISE(ABORT, 'no'); END"]);
    let attempt = board.start("agent", "ask make");
    attempt.settled();
    let said = attempt.said("assistant_message");
    assert!(said.len() == 1 && said[0].starts_with("denied make: "), "{said:?}");
}

#[test]
fn a_stop_is_the_protocols_own_interrupt_also_while_a_permission_is_waited_for() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let board = provost.board();
    for prompt in ["wait", "ask make"] {
        let attempt = board.start("agent", prompt);
        if prompt == "wait" {
            attempt.has_said("waiting");
        } else {
            pending(&provost, &attempt);
        }
        let stopped = attempt.stop();
        assert_eq!(stopped["signals"], json!(["interrupt"]), "{stopped}");
        assert_eq!(attempt.status()["state"], "failed");
        attempt.leaves_no_process();
        let all = json!({"attempt_id": attempt.id, "status": "all"});
        for approval in provost.call("list_inbox", &all)["approvals"].as_array().unwrap() {
            assert_eq!(approval["status"], "withdrawn");
            let late = json!({"approval_id": approval["approval_id"], "decision": "approve"});
            let refusal = provost.refusal("answer", &late);
            assert_eq!(refusal["code"], "idempotency_conflict");
        }
    }
}

#[test]
fn an_attempt_does_not_answer_what_it_asks_for_itself_however_it_goes_about_it() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let prompt = format!("sneak {}\nask make", provost.program().display());
    let attempt = provost.board().start("agent", &prompt);
    let id = pending(&provost, &attempt)["approval_id"].as_str().unwrap().to_owned();
    let asked = provost.home().join("heard.part");
    fs::write(&asked, &id).unwrap();
    fs::rename(asked, provost.home().join("heard.asked")).unwrap();
    let answered = provost.home().join("heard.sneak");
    let refusal = eventually("it has tried", || {
        fs::read_to_string(&answered)
            .ok()
            .filter(|text| text.contains("the caller runs inside attempt"))
    });
    assert!(refusal.contains("the caller runs inside attempt"), "{refusal}");
    assert_eq!(pending(&provost, &attempt)["status"], "pending");
    // A person may well stand in its worktree.
    let mut approve = provost.command(&["approve", &id]);
    approve.env("PROVOST_ATTEMPT_ID", &attempt.id);
    let done = Provost::done(approve);
    let approved = format!("{} approved", &id[28..]);
    assert_eq!(done.stdout.lines().last(), Some(approved.as_str()), "{}", done.stderr);
    attempt.settled();
}

#[test]
fn an_executor_that_lingers_after_its_turn_is_made_to_end() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", "say done\nlinger");
    attempt.has_said("done");
    let leader = attempt.leader();
    assert_eq!(attempt.settled()["state"], "completed");
    assert!(!processes::is_alive(leader));
}

#[test]
fn a_session_that_the_agent_has_forgotten_gives_way_to_a_new_one_with_a_recap() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", "say first\nforget");
    attempt.settled();
    let follow_up = json!({"action": "send", "attempt_id": attempt.id, "prompt": "say more"});
    provost.call("follow_up", &follow_up);
    assert_eq!(attempt.settled()["final_message"], "more");
    let errors = attempt.said("error_message");
    assert!(errors.iter().any(|text| text.contains("No conversation")), "{errors:?}");
    let prompt = attempt.said("user_message").pop().unwrap();
    assert!(prompt.contains("say first") && prompt.ends_with("say more"), "{prompt}");
    let begun = attempt.said("process_start");
    let resumes: Vec<bool> = begun.iter().map(|text| text.contains("--resume")).collect();
    assert_eq!(resumes, [false, true, false]);
}

fn in_seconds(seconds: u64) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + seconds
}

#[test]
fn a_turn_that_a_limit_ended_waits_for_somebody_to_go_on() {
    let Some(provost) = with_agent("").map(Provost::started) else { return };
    let at = in_seconds(1);
    let attempt = provost.board().start("agent", &format!("say first\nlimit {at}"));
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["waiting_on"]), (&json!("failed"), &json!("quota")));
    assert!(status["resume_at"].is_string(), "{status}");
    wait_until("the limit is over", || in_seconds(0) > at + 1);
    assert_eq!(attempt.status()["waiting_on"], "quota", "no one asked it to continue");
    let follow_up = json!({"action": "send", "attempt_id": attempt.id, "prompt": "say more"});
    provost.call("follow_up", &follow_up);
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["waiting_on"]), (&json!("completed"), &Value::Null));
}

#[test]
fn a_limit_is_no_more_than_a_failure_where_on_quota_is_never() {
    let Some(provost) = with_agent("on_quota = 'never'").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", &format!("limit {}", in_seconds(60)));
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["waiting_on"]), (&json!("failed"), &Value::Null));
}

#[test]
fn an_attempt_that_is_stopped_does_not_go_on_when_its_limit_is_over() {
    let Some(provost) = with_agent("on_quota = 'auto'").map(Provost::started) else { return };
    let at = in_seconds(15);
    let attempt = provost.board().start("agent", &format!("limit {at}"));
    attempt.settled();
    provost.call("stop_attempt", &json!({"attempt_id": attempt.id}));
    provost.kill_and_start();
    wait_until("the limit is over", || in_seconds(0) > at + 1);
    let status = attempt.status();
    assert_eq!(status["waiting_on"], "quota");
    assert!(status["next_action"].as_str().unwrap().contains("Call follow_up"), "{status}");
    assert_eq!(attempt.said("user_message").len(), 1);
}

#[test]
fn where_the_policy_says_so_an_attempt_goes_on_when_the_limit_is_over_once() {
    let Some(provost) = with_agent("on_quota = 'auto'").map(Provost::started) else { return };
    let attempt = provost.board().start("agent", &format!("limit {}", in_seconds(3)));
    let status = attempt.settled();
    assert_eq!(status["waiting_on"], "quota");
    // Also when another daemon has to remember it.
    provost.kill_and_start();
    let status = attempt.until("it has gone on", |status| status["state"] == "completed");
    assert_eq!(status["waiting_on"], Value::Null);
    assert_eq!(attempt.said("user_message").len(), 2);
    let resumed = attempt.said("process_start");
    assert!(resumed[1].contains("--resume"), "{resumed:?}");
}

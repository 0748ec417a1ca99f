//! Agents that speak the Agent Client Protocol: sessions that are resumed, kept for
//! the next try, or begun anew; what they ask a permission for; prompts that look like
//! commands. The agent is scripted.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Attempt, Provost, eventually, has_python};

const AGENT: &str = include_str!("agents/acp.py");

/// `None` without Python.
pub fn with_agent() -> Option<Provost> {
    if !has_python() {
        return None;
    }
    let provost = Provost::new();
    let path = provost.path("agent.py");
    fs::write(&path, AGENT).unwrap();
    let script = format!("exec python3 {} \"$@\"", path.display());
    Some(provost.executor("agent", "acp", &script).started())
}

/// What the agents of a home were asked for by this method.
fn heard(provost: &Provost, method: &str) -> Vec<Value> {
    let text = fs::read_to_string(provost.home().join("heard")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["method"] == method).collect()
}

fn prompts(provost: &Provost) -> Vec<String> {
    let text = |line: &Value| line["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
    heard(provost, "session/prompt").iter().map(text).collect()
}

fn follow_up(attempt: &Attempt<'_>, provost: &Provost, prompt: &str) -> Value {
    let call = json!({"action": "send", "attempt_id": attempt.id, "prompt": prompt});
    provost.call("follow_up", &call);
    attempt.settled()
}

#[test]
fn a_resume_that_failed_for_a_passing_reason_keeps_the_session() {
    let Some(provost) = with_agent() else { return };
    let attempt = provost.board().start("agent", "say first\nfull");
    attempt.settled();
    let failed = follow_up(&attempt, &provost, "say second");
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(failed["failure_summary"].as_str().unwrap().contains("ENOSPC"), "{failed}");
    let status = follow_up(&attempt, &provost, "say third");
    assert_eq!(
        (&status["state"], &status["final_message"]),
        (&json!("completed"), &json!("third"))
    );
    assert_eq!(heard(&provost, "session/new").len(), 1, "no other session was begun");
    assert_eq!(prompts(&provost)[1], "say third");
}

#[test]
fn a_session_that_is_lost_gives_way_to_one_that_gets_the_task_and_what_was_done() {
    let Some(provost) = with_agent() else { return };
    let attempt = provost.board().start("agent", "say first\nforget");
    attempt.settled();
    let status = follow_up(&attempt, &provost, "say second");
    assert_eq!(
        (&status["state"], &status["final_message"]),
        (&json!("completed"), &json!("second"))
    );
    assert_eq!(heard(&provost, "session/new").len(), 2);
    let sent = prompts(&provost).pop().unwrap();
    assert!(sent.contains("say first") && sent.ends_with("say second"), "{sent}");
    assert!(sent.contains("Your last message (it completed):\nfirst"), "{sent}");
    assert_eq!(attempt.said("user_message").last(), Some(&sent));
    let notices = attempt.said("system_message");
    assert!(notices.iter().any(|text| text.contains("a new one begins")), "{notices:?}");
    let errors = attempt.said("error_message");
    assert!(errors.iter().any(|text| text.contains("Session not found")), "{errors:?}");
    // The new session is resumed as any other, and told nothing twice.
    fs::remove_file(provost.home().join("heard.forget")).unwrap();
    assert_eq!(follow_up(&attempt, &provost, "say third")["final_message"], "third");
    assert_eq!(prompts(&provost).pop().unwrap(), "say third");
}

#[test]
fn a_prompt_that_begins_like_a_command_is_given_as_text() {
    let Some(provost) = with_agent() else { return };
    let board = provost.board();
    for prompt in ["/healthz returns 500\nsay ok", "  /clear it\nsay ok"] {
        assert_eq!(board.start("agent", prompt).settled()["final_message"], "ok");
        let sent = prompts(&provost).pop().unwrap();
        assert!(sent.ends_with(prompt) && !sent.trim_start().starts_with('/'), "{sent}");
    }
}

#[test]
fn a_turn_in_which_the_model_was_not_asked_has_failed() {
    let Some(provost) = with_agent() else { return };
    let status = provost.board().start("agent", "nothing").settled();
    assert_eq!(status["state"], "failed");
    let summary = status["failure_summary"].as_str().unwrap();
    assert!(summary.contains("without asking its model"), "{summary}");
}

#[test]
fn an_agent_that_dies_before_it_speaks_is_reported_with_its_last_words() {
    let provost = Provost::new();
    let script = "echo 'Unknown argument: acp' >&2; exit 1";
    let provost = provost.executor("agent", "acp", script).started();
    let status = provost.board().start("agent", "say x").settled();
    let expected = "exit code 1; its last lines on stderr: Unknown argument: acp";
    assert_eq!(status["failure_summary"], expected);
}

#[test]
fn a_person_sees_what_they_approve() {
    let Some(provost) = with_agent() else { return };
    let attempt = provost.board().start("agent", "edit /w/a.txt one\\u001b[2Jtwo");
    let asked = eventually("it asks for permission", || {
        let listed = provost.call("list_inbox", &json!({"attempt_id": attempt.id}));
        listed["approvals"].get(0).cloned()
    });
    let action = json!({"type": "file_edit", "path": "/w/a.txt", "content": "one\\u001b[2Jtwo"});
    assert_eq!(asked["action"], action);
    let use_of = attempt.normalized().into_iter().find(|entry| entry["kind"] == "tool_use");
    assert_eq!(use_of.unwrap()["action"], action);
    let shown = "  path: /w/a.txt\n  content: one";
    let listed = Provost::done(provost.command(&["approvals"])).stdout;
    assert!(listed.contains(shown), "{listed}");
    let approve = provost.command(&["approve", asked["approval_id"].as_str().unwrap()]);
    let approved = Provost::done(approve).stdout;
    assert!(approved.contains(shown) && approved.trim_end().ends_with("approved"), "{approved}");
    assert_eq!(attempt.settled()["final_message"], "selected");
}

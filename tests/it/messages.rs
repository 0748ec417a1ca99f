//! What was said in a session, and attempts that have none.

use serde_json::{Value, json};

use crate::harness::{Attempt, PLAIN, Provost};

fn tail(provost: &Provost, attempt: &Attempt, more: &Value) -> Value {
    let mut arguments = json!({"attempt_id": attempt.id});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    provost.call("tail_session_messages", &arguments)
}

#[test]
fn tail_transcript_for_latest_session_in_attempt() {
    let provost = Provost::running();
    let answer = "é".repeat(3000);
    let prompt = format!("say first\nsay {answer}");
    let attempt = provost.board().start("fake", &prompt);
    let status = attempt.settled();
    let page = tail(&provost, &attempt, &json!({}));
    assert_eq!(page["session_id"], status["latest_session_id"]);
    let messages = page["messages"].as_array().unwrap();
    let line = |message: &Value| {
        (message["message_index"].clone(), message["turn"].clone(), message["role"].clone())
    };
    let lines: Vec<_> = messages.iter().map(line).collect();
    assert_eq!(
        lines,
        [(json!(0), json!(1), json!("user")), (json!(1), json!(1), json!("assistant"))]
    );
    assert_eq!((&messages[0]["text"], &messages[1]["text"]), (&json!(prompt), &json!(answer)));
    assert!(messages[0]["at"].as_str() <= messages[1]["at"].as_str());
    assert_eq!((&page["next_cursor"], &page["has_more"]), (&Value::Null, &json!(false)));
    // A status tells less of it.
    let short = status["final_message"].as_str().unwrap();
    assert_eq!((short.chars().count(), short.ends_with('…')), (2000, true));

    let newest = tail(&provost, &attempt, &json!({"limit": 1}));
    assert_eq!((&newest["messages"][0], &newest["next_cursor"]), (&messages[1], &json!(1)));
    assert_eq!(tail(&provost, &attempt, &json!({"max_bytes": 1}))["messages"], newest["messages"]);
    let older = tail(&provost, &attempt, &json!({"cursor": newest["next_cursor"]}));
    assert_eq!((&older["messages"], &older["has_more"]), (&json!([messages[0]]), &json!(false)));
    let session = json!({"session_id": page["session_id"]});
    assert_eq!(provost.call("tail_session_messages", &session), page);
}

#[test]
fn a_prompt_is_there_while_its_answer_is_not() {
    let provost = Provost::new().config("[daemon]\nmax_running_attempts = 1").started();
    let board = provost.board();
    let running = board.start("fake", "say on it\nhang");
    running.in_phase("running");
    let queued = board.start("fake", "say hi");
    assert_eq!(tail(&provost, &running, &json!({}))["messages"].as_array().unwrap().len(), 1);
    assert_eq!(tail(&provost, &queued, &json!({}))["messages"], json!([]));
}

#[test]
fn unknown_targets_are_named() {
    let provost = Provost::running();
    let unknown = "01900000-0000-7000-8000-000000000000";
    for (field, code) in [("attempt_id", "attempt_not_found"), ("session_id", "session_not_found")]
    {
        let refusal = provost.refusal("tail_session_messages", &json!({field: unknown}));
        assert_eq!((&refusal["code"], &refusal["details"][field]), (&json!(code), &json!(unknown)));
    }
    let neither = provost.refusal("tail_session_messages", &json!({}));
    assert_eq!(neither["code"], "ambiguous_target");
}

/// An attempt that has settled, and of which no session and no process is left.
fn without_session(provost: &Provost) -> Attempt<'_> {
    let attempt = provost.board().start("fake", "say hi");
    attempt.settled();
    provost.kill();
    provost.sql(&[
        "DELETE FROM processes",
        "DELETE FROM sessions",
        "UPDATE attempts SET phase = 'idle', state = 'idle'",
    ]);
    provost.start();
    attempt
}

#[test]
fn attempt_has_no_sessions_or_processes() {
    let provost = Provost::running();
    let attempt = without_session(&provost);
    let status = attempt.status();
    assert_eq!((&status["state"], &status["phase"]), (&json!("idle"), &json!("idle")));
    assert_eq!(status["latest_session_id"], Value::Null);
    assert_eq!(status["latest_execution_process_id"], Value::Null);
    let wait = provost.call("wait_for_attempts", &json!({"attempt_ids": [attempt.id]}));
    assert_eq!(wait["attempts"][0]["state"], "idle");
}

#[test]
fn attempt_has_no_sessions() {
    let provost = Provost::running();
    let attempt = without_session(&provost);
    let task = json!({"task_id": attempt.started["task_id"]});
    let listed = provost.call("list_task_attempts", &task);
    assert_eq!(listed["latest_attempt_id"], attempt.id);
    assert_eq!(listed["latest_session_id"], Value::Null);
    assert_eq!(listed["attempts"][0]["latest_session_id"], Value::Null);
}

#[test]
fn missing_session_yields_actionable_hint() {
    let provost = Provost::running();
    let attempt = without_session(&provost);
    let target = json!({"attempt_id": attempt.id});
    let prompt = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say x"});
    for (tool, arguments) in [("tail_session_messages", target), ("follow_up", prompt)] {
        let refusal = provost.refusal(tool, &arguments);
        assert_eq!(refusal["code"], "no_session_yet");
        assert_eq!(refusal["retryable"], true);
        let hint = refusal["hint"].as_str().unwrap();
        assert!(
            hint.contains("get_attempt_status") && hint.contains("latest_session_id"),
            "{hint}"
        );
    }
}

#[test]
fn the_lines_of_a_plain_program_are_one_answer() {
    let script = "seq -f 'step %g' 3000; printf 'Summary:\\n- fixed the parser\\n\\nDone.\\n'";
    let provost = Provost::new()
        .executor(
            "short",
            PLAIN,
            "printf 'Summary:\\n- fixed the parser\\n\\nDone.\\n'; echo no >&2",
        )
        .executor("long", PLAIN, script)
        .started();
    let board = provost.board();
    let answer = "Summary:\n- fixed the parser\n\nDone.";
    let short = board.start("short", "x");
    assert_eq!(short.settled()["final_message"], answer);
    assert_eq!(tail(&provost, &short, &json!({}))["messages"][1]["text"], answer);
    assert_eq!(short.said("assistant_message"), ["Summary:", "- fixed the parser", "", "Done."]);

    // Of many lines the last ones are shown: the answer is there.
    let long = board.start("long", "x");
    let message = long.settled()["final_message"].as_str().unwrap().to_owned();
    assert_eq!(message.chars().count(), 2000);
    assert!(message.starts_with('…') && message.ends_with(answer), "{message}");
    let newest = tail(&provost, &long, &json!({"limit": 1}));
    let whole = newest["messages"][0]["text"].as_str().unwrap();
    assert!(whole.len() > 10_000 && whole.ends_with(answer), "{whole}");
}

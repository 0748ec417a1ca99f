//! Sessions that are resumed, and those that are not, in the words of real agents.

use serde_json::{Value, json};

use super::*;

fn resumed(name: &str, capabilities: &Value, answers: &[Value]) -> Vec<Observed> {
    let dialogue = Dialogue {
        resumes: Some("s1".into()),
        prompt: "go on".into(),
        ..Dialogue::with_options(&options(name, "none"))
    };
    talk(dialogue, &[&[initialized(capabilities)], answers].concat())
}

fn error(id: u32, code: i64, message: &str, data: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})
}

#[test]
fn a_session_is_lost_only_by_the_agents_own_word() {
    let can = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let lost = |name: &str, code, message: &str, data: Value| {
        let observed = resumed(name, &can, &[error(2, code, message, &data)]);
        let end = ended(&observed);
        assert!(end.failed, "{name}");
        let is_lost = observed.contains(&Observed::SessionLost);
        let shown = if is_lost { "does not know its session" } else { "tries again" };
        assert!(end.error.as_ref().unwrap().contains(shown), "{name}: {end:?}");
        is_lost
    };
    let details = |text: &str| json!({ "details": text });
    let not_found = "Resource not found: Session 6f39 not found";
    for (name, code, message, data) in [
        (
            "gemini",
            -32603,
            "Internal error",
            details("No previous sessions found for this project."),
        ),
        (
            "gemini",
            -32603,
            "Internal error",
            details("Invalid session identifier \"6f39\".\n  Searched for sessions in /h/chats."),
        ),
        ("qwen", -32002, "Resource not found: session:6f39", json!({"uri": "session:6f39"})),
        (
            "kimi",
            -32602,
            "Invalid params: Unknown sessionId: session_6f39",
            json!({"sessionId": "session_6f39"}),
        ),
        ("copilot", -32002, not_found, json!({"uri": "Session 6f39 not found"})),
        ("another", -32602, "Session not found: 6f39", Value::Null),
    ] {
        assert!(lost(name, code, message, data), "{name}: {message}");
    }
    for name in ["gemini", "qwen", "kimi", "copilot", "opencode", "another"] {
        let full = details("ENOSPC: no space left on device, write");
        assert!(!lost(name, -32603, "Internal error", full), "{name}");
        assert!(!lost(name, -32603, "fetch failed", Value::Null), "{name}");
        let broken = details("settings.json: Expected ',' at line 3; session not restored");
        assert!(!lost(name, -32603, "Internal error", broken), "{name}");
    }
}

#[test]
fn a_fork_goes_on_in_a_copy_of_the_session_and_loses_it_when_there_can_be_none() {
    let forked = |capabilities: &Value, answers: &[Value]| {
        let dialogue = Dialogue { resumes: Some("s1".into()), forks: true, ..prompted() };
        talk(dialogue, &[&[initialized(capabilities)], answers].concat())
    };
    let can = json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "fork": {}}});
    let copy = json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s2"}});
    let observed = forked(&can, &[copy]);
    let calls = says(&observed);
    assert_eq!(calls[1]["method"], "session/fork");
    assert_eq!(calls[1]["params"]["sessionId"], "s1");
    assert_eq!(calls.last().unwrap()["params"]["sessionId"], "s2");
    assert!(observed.contains(&Observed::ExecutorSession("s2".to_owned())));
    let refused = error(2, -32603, "Internal error", &Value::Null);
    assert!(forked(&can, &[refused]).contains(&Observed::SessionLost));
    let can_not = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let observed = forked(&can_not, &[]);
    assert!(observed.contains(&Observed::SessionLost));
    assert_eq!(says(&observed).len(), 1, "the session of another attempt is not resumed");
}

#[test]
fn an_agent_that_offers_what_it_does_not_have_loads_the_session() {
    let can = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let refused = error(
        2,
        -32601,
        "\"Method not found\": session/resume",
        &json!({"method": "session/resume"}),
    );
    let observed = resumed("qwen", &can, &[refused.clone(), answered(6, &json!({}))]);
    assert_eq!(
        methods(&observed),
        ["initialize", "session/resume", "session/load", "session/prompt"]
    );
    assert!(!observed.contains(&Observed::SessionLost));
    let no_load = json!({"sessionCapabilities": {"resume": {}}});
    assert!(resumed("qwen", &no_load, &[refused]).contains(&Observed::SessionLost));
}

#[test]
fn an_agent_that_wants_a_sign_in_and_has_another_method_gets_each_request() {
    let method_not_found = error(5, -32601, "Method not found", &Value::Null);
    let sign_in = refused(2, -32000, "Authentication required");
    let agent = initialized(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    let answers =
        [agent, sign_in, answered(4, &json!({})), method_not_found, answered(6, &json!({}))];
    let dialogue =
        Dialogue { resumes: Some("s1".into()), auth_method: Some("key".into()), ..prompted() };
    let observed = talk(dialogue, &answers);
    let expected = [
        "initialize",
        "session/resume",
        "authenticate",
        "session/resume",
        "session/load",
        "session/prompt",
    ];
    assert_eq!(methods(&observed), expected);
}

#[test]
fn an_agent_that_can_not_say_that_a_session_is_gone_is_asked_for_those_it_has() {
    let can = json!({"loadSession": true, "sessionCapabilities": {"list": {}, "resume": {}}});
    let data = json!({"service": "session"});
    let failed = error(2, -32603, "Internal error: OpenCode service failure", &data);
    let listed = |id: u32, ids: &[&str], cursor: Value| {
        let sessions: Vec<Value> =
            ids.iter().map(|id| json!({"sessionId": id, "cwd": "/w"})).collect();
        answered(id, &json!({"sessions": sessions, "nextCursor": cursor}))
    };
    let lost = |pages: &[Value]| {
        let observed = resumed("opencode", &can, &[std::slice::from_ref(&failed), pages].concat());
        assert!(ended(&observed).error.unwrap().contains("OpenCode service failure"));
        observed.contains(&Observed::SessionLost)
    };
    assert!(lost(&[listed(100, &["s0"], Value::Null)]));
    assert!(lost(&[listed(100, &[], json!("more")), listed(101, &["s0"], Value::Null)]));
    assert!(!lost(&[listed(100, &["s0"], json!("more")), listed(101, &["s1"], Value::Null)]));
    assert!(!lost(&[error(100, -32603, "Internal error", &Value::Null)]));
    assert!(!lost(&[answered(100, &json!({}))]));
}

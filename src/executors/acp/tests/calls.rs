//! Tool calls: how they end, in the words of real agents, and how many are kept.

use serde_json::{Value, json};

use super::*;

fn call(fields: &Value) -> Value {
    let mut call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1"});
    call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    update(&call)
}

fn of(name: &str, lines: &[Value]) -> Vec<Event> {
    let options = options(name, "none");
    let dialogue = Dialogue { prompt: "do it".into(), ..Dialogue::with_options(&options) };
    entries(&working(dialogue, lines)).into_iter().cloned().collect()
}

fn status_of(events: &[Event]) -> (ToolStatus, Option<i32>) {
    let result = events.iter().find_map(|event| match event {
        Event::ToolResult { status, exit_code, .. } => Some((*status, *exit_code)),
        _ => None,
    });
    result.unwrap()
}

#[test]
fn a_command_that_has_failed_is_a_call_that_failed() {
    let opencode = json!({"status": "completed", "kind": "execute", "rawInput": {"command": "exit 3"},
        "rawOutput": {"output": "", "metadata": {"output": "", "exit": 3, "truncated": false}}});
    assert_eq!(status_of(&of("opencode", &[call(&opencode)])), (ToolStatus::Failed, Some(3)));
    let copilot = json!({"status": "completed", "kind": "execute", "rawInput": {"command": "exit 3"},
        "rawOutput": {"content": "", "contents": [{"type": "shell_exit", "shellId": "1", "exitCode": 3}]}});
    assert_eq!(status_of(&of("copilot", &[call(&copilot)])), (ToolStatus::Failed, Some(3)));
}

#[test]
fn a_call_that_a_person_rejected_is_denied() {
    let text = "Tool \"run_shell_command\" was canceled by the user.";
    let rejected = json!({"status": "failed", "content": [{"type": "content", "content": {"type": "text", "text": text}}]});
    let events = of("qwen", &[permission(&json!([])), call(&rejected)]);
    assert_eq!(status_of(&events), (ToolStatus::Denied, None));
}

#[test]
fn a_tool_of_a_server_of_the_users_own_is_known_by_its_name() {
    let ping = json!({"title": "own_ping", "kind": "other", "status": "completed", "rawInput": {"to": "x"}});
    let events = of("opencode", &[call(&ping)]);
    let Event::ToolUse { action, .. } = &events[0] else { panic!("{events:?}") };
    let expected = json!({"type": "mcp", "server": "own", "tool": "ping", "input": {"to": "x"}});
    assert_eq!(json!(action), expected);
}

#[test]
fn what_qwen_code_notifies_of_its_mode_is_no_entry() {
    let notice = json!({"jsonrpc": "2.0", "method": "qwen/notify/session/mode-update",
        "params": {"v": 1, "sessionId": "s1", "currentModeId": "default"}});
    assert_eq!(of("qwen", &[notice]), []);
}

#[test]
fn calls_that_never_end_are_closed_and_what_is_kept_of_them_is_bounded() {
    let begun = |number: u32, content: &str| {
        call(&json!({"toolCallId": format!("c{number}"), "title": "bash", "kind": "execute",
            "rawInput": {"command": content}}))
    };
    for (count, content, most) in [(5000, "x".to_owned(), 1000), (40, "x".repeat(500_000), 8)] {
        let lines: Vec<String> =
            (0..count).map(|number| begun(number, &content).to_string()).collect();
        let mut normalizer = normalize::normalizer(None);
        let mut observed = Vec::new();
        for entry in raw(Stream::Stdout, lines.join("\n").as_bytes()) {
            normalizer.raw(entry, &mut observed);
        }
        let checkpoint = normalizer.checkpoint().to_string();
        assert!(checkpoint.len() < 10_000_000, "{}", checkpoint.len());
        let closed = entries(&observed).into_iter().filter(|event| {
            matches!(event, Event::SystemMessage { text } if text.contains("closed as unfinished"))
        });
        assert_eq!(closed.count(), count as usize - most, "those of {} bytes", content.len());
    }
}

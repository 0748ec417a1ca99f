use std::collections::BTreeMap;

use provost_actors::event::{ErrorType, Event, Stream, Timestamp};
use provost_actors::executor::{Observed, Request, TurnEnded, Verdict};

use super::super::call::Call;
use super::super::tests::transcripts::{
    assert_paired, hold_laws, observe, raw, read, scenarios, shown,
};
use super::super::tests::turn;
use super::*;
use crate::config::PromptVia;

fn call() -> Call {
    let options = [
        ("model", "gpt-5.5"),
        ("effort", "high"),
        ("sandbox", "read-only"),
        ("approval_policy", "on-request"),
    ];
    Call {
        program: "/usr/bin/codex".into(),
        args: vec!["app-server".into()],
        env: BTreeMap::new(),
        options: options.map(|(name, value)| (name.into(), value.into())).into(),
        prompt: PromptVia::Stdin,
        supports_mcp: true,
    }
}

fn dialogue() -> Value {
    launch(&turn("do it"), call()).unwrap().dialogue
}

/// What is made of these lines in a conversation of ours.
fn of(lines: &[Value]) -> Vec<Observed> {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    observe(normalizer(&dialogue()), &raw(Stream::Stdout, text.join("\n").as_bytes()))
}

#[test]
fn every_recorded_conversation_gives_all_its_entries() {
    for scenario in scenarios("codex") {
        let observed = observe(normalizer(&dialogue()), &read("codex", &scenario));
        assert_paired(&observed);
        let shown = shown(&observed);
        insta::with_settings!({ snapshot_suffix => scenario }, {
            insta::assert_json_snapshot!(shown);
        });
    }
}

#[test]
fn no_bytes_and_no_cut_change_or_break_it() {
    hold_laws("codex", || normalizer(&dialogue()));
    hold_laws("codex", || normalizer(&Value::Null));
}

fn notification(method: &str, params: Value) -> Value {
    let fields = [("method".to_owned(), Value::from(method)), ("params".to_owned(), params)];
    Value::from_iter(fields)
}

fn ended(observed: &[Observed]) -> Option<&TurnEnded> {
    observed.iter().find_map(|one| match one {
        Observed::TurnEnded(ended) => Some(ended),
        _ => None,
    })
}

/// The messages that are to be said, by their keys.
fn said(observed: &[Observed]) -> BTreeMap<&str, Value> {
    let said = observed.iter().filter_map(|one| match one {
        Observed::Say(message) => Some((message.key.as_str(), message.line.parse().unwrap())),
        _ => None,
    });
    said.collect()
}

fn request_of(method: &str, params: Value) -> Request {
    let mut line = notification(method, params);
    line["id"] = json!(7);
    let asked = of(&[line]).into_iter().find_map(|one| match one {
        Observed::Ask(request) => Some(request),
        _ => None,
    });
    asked.unwrap()
}

#[test]
fn a_follow_up_resumes_the_thread_with_the_same_options() {
    let again = Turn { executor_session_id: Some("t1".into()), ..turn("more") };
    let launch = launch(&again, call()).unwrap();
    assert_eq!(launch.stdin, Stdin::Open);
    assert_eq!(launch.args, ["app-server"]);
    let lines = [
        r#"{"id":"initialize","result":{}}"#,
        r#"{"id":"thread","result":{"thread":{"id":"t1"}}}"#,
    ];
    let lines = raw(Stream::Stdout, lines.join("\n").as_bytes());
    let observed = observe(normalizer(&launch.dialogue), &lines);
    insta::assert_json_snapshot!(shown(&observed));
}

#[test]
fn a_fork_goes_on_in_a_copy_of_the_thread_and_loses_it_when_there_can_be_none() {
    let fork = Turn { executor_session_id: Some("t1".into()), forks: true, ..turn("more") };
    let dialogue = launch(&fork, call()).unwrap().dialogue;
    let answers = |answer: Value| {
        let lines = [r#"{"id":"initialize","result":{}}"#.to_owned(), answer.to_string()];
        observe(normalizer(&dialogue), &raw(Stream::Stdout, lines.join("\n").as_bytes()))
    };
    let observed = answers(json!({"id": "thread", "result": {"thread": {"id": "t2"}}}));
    let said = observed.iter().filter_map(|one| match one {
        Observed::Say(message) => Some(serde_json::from_str::<Value>(&message.line).unwrap()),
        _ => None,
    });
    let said: Vec<Value> = said.collect();
    let forked = said.iter().find(|it| it["id"] == "thread").unwrap();
    assert_eq!(
        (&forked["method"], &forked["params"]["threadId"]),
        (&json!("thread/fork"), &json!("t1"))
    );
    assert_eq!(said.last().unwrap()["params"]["threadId"], "t2");
    assert!(observed.contains(&Observed::ExecutorSession("t2".to_owned())));
    let error = json!({"code": -32600, "message": "unknown variant `thread/fork`"});
    assert!(answers(json!({"id": "thread", "error": error})).contains(&Observed::SessionLost));
}

#[test]
fn an_executor_without_the_way_back_is_given_none() {
    let launch = launch(&turn("x"), Call { supports_mcp: false, ..call() }).unwrap();
    assert!(launch.dialogue["config"]["mcp_servers"].is_null());
}

#[test]
fn a_thread_that_is_gone_fails_the_turn() {
    let error = json!({ "code": -32600, "message": "no rollout found for thread id t1" });
    let observed = of(&[json!({ "id": "thread", "error": error })]);
    let ended = ended(&observed).unwrap();
    assert!(ended.failed);
    assert_eq!(ended.error.as_deref(), Some("no rollout found for thread id t1"));
    assert!(matches!(&observed[1], Observed::Entry(Event::ErrorMessage { .. })), "{observed:?}");
}

/// Each is what a real one says; only the first of them means that the thread is gone.
#[test]
fn only_the_word_that_a_thread_is_gone_loses_it() {
    let again = Turn { executor_session_id: Some("t1".into()), ..turn("more") };
    let dialogue = launch(&again, call()).unwrap().dialogue;
    for (message, is_lost) in [
        ("no rollout found for thread id 01890a5d-ac96-774b-bcce-b302099a8057", true),
        ("thread/resume.excludeTurns requires experimentalApi capability", false),
        ("error deriving config: /home/u/.codex/config.toml:10:11: unclosed array", false),
        ("failed to load configuration: Model provider `nope` not found", false),
        ("failed to initialize sqlite state db: No space left on device (os error 28)", false),
    ] {
        let refused =
            json!({ "id": "thread", "error": { "code": -32600, "message": message } }).to_string();
        let lines = raw(Stream::Stdout, refused.as_bytes());
        let observed = observe(normalizer(&dialogue), &lines);
        assert_eq!(observed.contains(&Observed::SessionLost), is_lost, "{message}");
        assert!(ended(&observed).unwrap().failed, "{message}");
    }
}

#[test]
fn a_limit_tells_when_it_ends() {
    let limits = json!({ "rateLimits": {
        "primary": { "usedPercent": 100, "resetsAt": 1000 },
        "secondary": { "usedPercent": 40, "resetsAt": 9000 },
    } });
    let error = json!({ "message": "You've hit your usage limit.", "codexErrorInfo": "usageLimitExceeded" });
    let turn = json!({ "turn": { "status": "failed", "error": error } });
    let observed = of(&[
        notification("account/rateLimits/updated", limits),
        notification("turn/completed", turn),
    ]);
    let ended = ended(&observed).unwrap();
    assert_eq!(ended.error_type, Some(ErrorType::Quota));
    assert_eq!(ended.resume_at, Some(Timestamp::from_millis(1_000_000)));
}

#[test]
fn text_that_was_cut_off_is_kept_as_far_as_it_was_sent() {
    let delta = |text: &str| {
        notification("item/agentMessage/delta", json!({ "itemId": "m", "delta": text }))
    };
    let interrupted =
        notification("turn/completed", json!({ "turn": { "status": "interrupted" } }));
    for lines in [vec![delta("half "), delta("a")], vec![delta("half "), delta("a"), interrupted]] {
        let observed = of(&lines);
        let text = "half a".to_owned();
        let entry = Observed::Entry(Event::AssistantMessage { text, continued: false });
        assert_eq!(observed.iter().filter(|one| **one == entry).count(), 1, "{observed:?}");
    }
}

#[test]
fn a_command_is_approved_or_declined_with_the_reason() {
    let request = request_of(
        "item/commandExecution/requestApproval",
        json!({ "threadId": "t", "turnId": "u", "itemId": "c", "command": "rm x", "reason": "cleaning" }),
    );
    assert_eq!(request.text, "to run rm x: cleaning");
    let approval = answer(&request, &Verdict::Approve);
    assert_eq!(approval.key, "answer:7");
    assert_eq!(approval.line, r#"{"id":7,"result":{"decision":"accept"}}"#);
    let denial = answer(&request, &Verdict::Deny { reason: "keep it".into() });
    let lines: Vec<Value> = denial.line.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lines[0]["params"]["expectedTurnId"], "u");
    assert_eq!(
        lines[0]["params"]["input"][0]["text"],
        "Permission denied (to run rm x: cleaning): keep it"
    );
    assert_eq!(lines[1], json!({ "id": 7, "result": { "decision": "decline" } }));
}

#[test]
fn other_permissions_are_answered_in_their_own_forms() {
    let rights = json!({ "network": { "enabled": true } });
    let request = request_of("item/permissions/requestApproval", json!({ "permissions": rights }));
    let line = |verdict| answer(&request, &verdict).line;
    assert!(line(Verdict::Approve).contains(r#""permissions":{"network":{"enabled":true}}"#));
    assert!(line(Verdict::Deny { reason: "no".into() }).contains(r#""permissions":{}"#));
    let meta =
        json!({ "codex_approval_kind": "mcp_tool_call", "tool_name": "ping", "tool_params": {} });
    let request = request_of(
        "mcpServer/elicitation/request",
        json!({ "serverName": "s", "_meta": meta, "message": "Allow?" }),
    );
    assert_eq!(request.tool_name, "mcp__s__ping");
    let line = answer(&request, &Verdict::Approve).line;
    assert_eq!(line, r#"{"id":7,"result":{"action":"accept","content":{},"_meta":null}}"#);
}

#[test]
fn what_no_person_is_there_for_is_refused_at_once() {
    let observed = of(&[
        json!({ "id": 1, "method": "item/tool/requestUserInput", "params": { "questions": [{ "id": "q", "question": "Which?" }] } }),
        json!({ "id": 2, "method": "mcpServer/elicitation/request", "params": { "serverName": "s", "message": "Name?" } }),
        json!({ "id": "x", "method": "of/tomorrow", "params": {} }),
    ]);
    let said = said(&observed);
    assert_eq!(said["answer:1"]["result"], json!({ "answers": {} }));
    assert_eq!(said["answer:2"]["result"]["action"], "decline");
    assert_eq!(said["answer:x"]["error"]["code"], -32601);
}

#[test]
fn every_kind_of_item_gives_its_entry() {
    let items = [
        json!({ "type": "webSearch", "id": "1", "query": "rust", "action": { "type": "search", "query": "rust" } }),
        json!({ "type": "webSearch", "id": "2", "query": "", "action": { "type": "openPage", "url": "https://example.org" } }),
        json!({ "type": "dynamicToolCall", "id": "3", "namespace": "n", "tool": "t", "arguments": { "a": 1 }, "status": "completed", "success": false, "contentItems": [{ "type": "inputText", "text": "no" }] }),
        json!({ "type": "collabAgentToolCall", "id": "4", "tool": "spawnAgent", "status": "completed", "prompt": "look", "receiverThreadIds": ["c"], "agentsStates": { "c": { "status": "running", "message": null } } }),
        json!({ "type": "subAgentActivity", "id": "5", "kind": "started", "agentThreadId": "c", "agentPath": "/root/look" }),
        json!({ "type": "plan", "id": "6", "text": "1. look" }),
        json!({ "type": "imageView", "id": "7", "path": "/w/a.png" }),
        json!({ "type": "contextCompaction", "id": "8" }),
        json!({ "type": "exitedReviewMode", "id": "9", "review": "fine" }),
        json!({ "type": "commandExecution", "id": "10", "command": "false", "status": "failed", "exitCode": 1, "aggregatedOutput": "" }),
        json!({ "type": "fileChange", "id": "11", "status": "declined", "changes": [{ "path": "/w/a", "kind": { "type": "update", "move_path": null }, "diff": "@@" }] }),
        json!({ "type": "mcpToolCall", "id": "12", "server": "s", "tool": "t", "status": "failed", "arguments": {}, "error": { "message": "user rejected MCP tool call" } }),
        json!({ "type": "ofTomorrow", "id": "13" }),
    ];
    let mut lines: Vec<Value> = items
        .into_iter()
        .map(|item| notification("item/completed", json!({ "item": item })))
        .collect();
    let plan = json!([{ "step": "look", "status": "completed" }, { "step": "mend", "status": "inProgress" }]);
    lines.push(notification("turn/plan/updated", json!({ "explanation": null, "plan": plan })));
    lines.push(notification("of/tomorrow", json!({})));
    insta::assert_json_snapshot!(shown(&of(&lines)));
}

#[test]
fn an_item_that_ends_without_its_text_keeps_what_was_streamed() {
    let item = json!({ "type": "agentMessage", "id": "m" });
    let observed = of(&[
        notification("item/agentMessage/delta", json!({ "itemId": "m", "delta": "Hello" })),
        notification("item/completed", json!({ "item": item })),
    ]);
    let messages: Vec<Value> = shown(&observed);
    let hello = json!({ "kind": "assistant_message", "text": "Hello" });
    assert!(messages.contains(&hello), "{messages:?}");
}

#[test]
fn an_end_that_is_not_known_is_no_success() {
    for turn in [json!({ "status": "abandoned" }), json!({ "error": { "message": "it broke" } })] {
        let observed = of(&[notification("turn/completed", json!({ "turn": turn }))]);
        assert!(ended(&observed).unwrap().failed, "{turn}");
    }
}

#[test]
fn what_a_sub_agent_says_is_not_the_agents_own_word() {
    let observed = of(&[
        json!({ "id": "thread", "result": { "thread": { "id": "t" } } }),
        notification(
            "item/completed",
            json!({ "threadId": "c", "item": { "type": "agentMessage", "id": "m", "text": "seen" } }),
        ),
        notification(
            "turn/completed",
            json!({ "threadId": "c", "turn": { "status": "completed" } }),
        ),
    ]);
    assert!(
        !observed.iter().any(|one| matches!(one, Observed::Entry(Event::AssistantMessage { .. })))
    );
    assert!(ended(&observed).unwrap().failed, "nor is its end the turn's");
}

//! Transcripts of real agents, and conversations with such as the recorded ones are not.

mod calls;
mod permissions;
mod sessions;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use provost_actors::event::{Action, ErrorType, Event, RawEntry, Stream, ToolStatus};
use provost_actors::executor::{Message, Observed, TurnEnded};
use serde_json::Value;

use super::*;
use crate::config::Config;
use crate::executors::tests::transcripts::{
    assert_paired, hold_laws, observe, raw, read, scenarios, shown,
};
use crate::executors::tests::turn;

const AGENTS: [&str; 7] = [
    "acp_claude",
    "acp_codex",
    "acp_copilot",
    "acp_gemini",
    "acp_kimi",
    "acp_opencode",
    "acp_qwen",
];

/// The options of a built-in executor and those of one of its variants.
fn options(name: &str, variant: &str) -> BTreeMap<String, String> {
    let config = Config::load(Path::new("/nonexistent/config.toml"), &[]).unwrap();
    let Some(executor) = config.executors.get(name) else { return BTreeMap::new() };
    let mut options = executor.options.clone();
    options
        .extend(executor.variants.get(variant).map(|own| own.options.clone()).unwrap_or_default());
    options
}

/// What a client said in a scenario.
fn said(cli: &str, scenario: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let text = fs::read_to_string(folder.join(cli).join(scenario).join("stdin.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the client of a scenario had been shown to say in its first turn.
fn dialogue(cli: &str, scenario: &str) -> Dialogue {
    let said = said(cli, scenario);
    let params = |method: &str| {
        said.iter().find(|message| message["method"] == method).unwrap()["params"].clone()
    };
    Dialogue {
        prompt: params("session/prompt")["prompt"][0]["text"].as_str().unwrap().to_owned(),
        cwd: params("session/new")["cwd"].as_str().unwrap().into(),
        ..Dialogue::with_options(&options(cli.trim_start_matches("acp_"), "none"))
    }
}

/// A conversation in which the agent says these. Each of our requests has its own key and its own id.
fn talk(dialogue: Dialogue, lines: &[Value]) -> Vec<Observed> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let entries: Vec<RawEntry> = raw(Stream::Stdout, lines.join("\n").as_bytes());
    let observed = observe(normalize::normalizer(Some(dialogue)), &entries);
    let (mut keys, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for one in &observed {
        let Observed::Say(message) = one else { continue };
        let line: Value = serde_json::from_str(&message.line).unwrap();
        let is_request = line["method"].is_string();
        assert!(!is_request || keys.insert(&message.key), "a second {}", message.key);
        assert!(!is_request || ids.insert(line["id"].to_string()), "a second id: {line}");
    }
    observed
}

fn prompted() -> Dialogue {
    Dialogue { prompt: "do it".into(), cwd: "/w".into(), ..Dialogue::default() }
}

fn says(observed: &[Observed]) -> Vec<Value> {
    let lines = observed.iter().filter_map(|one| match one {
        Observed::Say(message) => Some(&message.line),
        _ => None,
    });
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn methods(observed: &[Observed]) -> Vec<String> {
    says(observed).iter().map(|line| line["method"].as_str().unwrap_or("-").to_owned()).collect()
}

fn entries(observed: &[Observed]) -> Vec<&Event> {
    let shown = observed.iter().filter_map(|one| match one {
        Observed::Entry(event) => Some(event),
        _ => None,
    });
    shown.collect()
}

fn ended(observed: &[Observed]) -> TurnEnded {
    let one = |one: &Observed| match one {
        Observed::TurnEnded(ended) => Some(ended.clone()),
        _ => None,
    };
    observed.iter().find_map(one).expect("the turn ended")
}

fn interrupt(observed: &[Observed]) -> Message {
    let one = |one: &Observed| match one {
        Observed::Interrupt(message) => message.clone(),
        _ => None,
    };
    observed.iter().rev().find_map(one).expect("it can be interrupted")
}

fn initialized(capabilities: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities,
        "authMethods": [{"id": "web", "name": "Log in", "description": "in a browser"}]}})
}

fn opened(offer: &Value) -> Value {
    let mut result = offer.clone();
    result["sessionId"] = "s1".into();
    json!({"jsonrpc": "2.0", "id": 2, "result": result})
}

fn answered(id: u32, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn refused(id: u32, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn update(update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": update}})
}

fn chunk(text: &str) -> Value {
    update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
    )
}

fn permission(options: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "p7", "method": "session/request_permission", "params": {
        "sessionId": "s1", "options": options,
        "toolCall": {"toolCallId": "c1", "title": "rm -r /", "kind": "execute"}}})
}

/// One that has been opened and given its prompt, and then says these.
fn working(dialogue: Dialogue, lines: &[Value]) -> Vec<Observed> {
    let begin = [initialized(&json!({})), opened(&json!({}))];
    talk(dialogue, &[&begin, lines].concat())
}

#[test]
fn each_transcript_is_read_to_its_end() {
    for cli in AGENTS {
        for scenario in scenarios(cli) {
            let dialogue = dialogue(cli, &scenario);
            let observed = observe(normalize::normalizer(Some(dialogue)), &read(cli, &scenario));
            assert_paired(&observed);
            insta::with_settings!({ snapshot_suffix => format!("{cli}-{scenario}") }, {
                insta::assert_json_snapshot!("transcript", shown(&observed));
            });
        }
    }
}

#[test]
fn the_laws_of_normalizers_hold() {
    for cli in AGENTS {
        hold_laws(cli, || normalize::normalizer(None));
        hold_laws(cli, || normalize::normalizer(Some(dialogue(cli, "acp-hello"))));
    }
}

#[test]
fn the_transcript_of_another_client_reads_the_same() {
    for cli in AGENTS {
        for scenario in scenarios(cli) {
            let Dialogue { quirks, .. } = dialogue(cli, &scenario);
            let own = observe(
                normalize::normalizer(Some(dialogue(cli, &scenario))),
                &read(cli, &scenario),
            );
            let other = observe(normalize::normalizer(None), &read(cli, &scenario));
            if quirks == conversation::Quirks::default() {
                assert_eq!(entries(&own), entries(&other), "{cli}/{scenario}");
            }
            assert_eq!(says(&other), [Value::Null; 0], "{cli}/{scenario}");
            assert_eq!(ended(&own), ended(&other), "{cli}/{scenario}");
        }
    }
}

#[test]
fn it_says_what_the_recorded_client_said() {
    for cli in AGENTS {
        for scenario in scenarios(cli) {
            let dialogue = dialogue(cli, &scenario);
            let observed = observe(normalize::normalizer(Some(dialogue)), &read(cli, &scenario));
            for (ours, theirs) in
                says(&observed).into_iter().zip(said(cli, &scenario)).skip(1).take(2)
            {
                assert_eq!(ours, theirs, "{cli}/{scenario}");
            }
        }
    }
}

#[test]
fn a_launch_tells_the_normalizer_what_is_to_be_said() {
    let call = |options| Call {
        program: "/bin/agent".into(),
        args: vec!["--acp".into()],
        env: BTreeMap::new(),
        options,
        prompt: crate::config::PromptVia::Stdin,
        supports_mcp: true,
    };
    let turn = Turn { executor_session_id: Some("s0".into()), ..turn("do it") };
    let first = launch(&turn, call(options("gemini", "auto"))).unwrap();
    assert_eq!((first.stdin, first.args), (Stdin::Open, vec!["--acp".to_owned()]));
    insta::assert_json_snapshot!("dialogue", first.dialogue);
    let launch = launch(&turn, call(options("copilot", "auto"))).unwrap();
    assert_eq!(launch.dialogue["mcp_servers"], json!([]));
    assert_eq!(launch.args[1], "--additional-mcp-config");
    insta::assert_snapshot!("mcp_config", launch.args[2]);
}

#[test]
fn what_kimi_says_of_its_context_is_no_message_of_the_model() {
    let kimi =
        || Dialogue { prompt: "do it".into(), ..Dialogue::with_options(&options("kimi", "none")) };
    let notices =
        ["Compacting conversation context…", "Compaction completed.\n- Messages compacted: 9"];
    let end = answered(3, &json!({"stopReason": "end_turn"}));
    let [begun, made] = notices.map(chunk);
    let texts = |observed: &[Observed]| {
        let of_model = entries(observed).into_iter().filter_map(|event| match event {
            Event::AssistantMessage { text, .. } => Some(text.clone()),
            _ => None,
        });
        of_model.collect::<Vec<_>>()
    };
    let went_on = [begun.clone(), made.clone(), chunk("Compaction is done, I go on."), end.clone()];
    let observed = working(kimi(), &went_on);
    assert_eq!(texts(&observed), ["Compaction is done, I go on."]);
    assert_eq!(ended(&observed), TurnEnded::default());
    let observed = working(kimi(), &[begun, made, end]);
    assert_eq!(texts(&observed), [""; 0]);
    assert_eq!(ended(&observed).error_type, Some(ErrorType::Context));
}

#[test]
fn the_mode_the_model_and_options_are_set_before_the_prompt() {
    let settings = [("mode", "Plan"), ("model", "big"), ("effort", "high"), ("fast", "true")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let select = |id: &str, category: &str, value: &str| {
        json!({"id": id, "name": id, "category": category, "type": "select", "currentValue": value,
            "options": [{"value": value, "name": value}]})
    };
    let offer = json!({
        "modes": {"currentModeId": "a", "availableModes": [{"id": "x#plan", "name": "Planning"}]},
        "configOptions": [select("llm", "model", "big"), select("effort", "thought_level", "low"),
            {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": false}],
    });
    let dialogue = Dialogue { settings, ..prompted() };
    let answers = (10..14).map(|id| answered(id, &json!({})));
    let lines: Vec<Value> =
        [initialized(&json!({})), opened(&offer)].into_iter().chain(answers).collect();
    let said = says(&talk(dialogue.clone(), &lines));
    insta::assert_json_snapshot!("settings", said[2..]);

    let failed = ended(&talk(dialogue, &[initialized(&json!({})), opened(&json!({}))]));
    assert_eq!(failed.error_type, Some(ErrorType::Setup));
    assert_eq!(
        failed.error.unwrap(),
        "the agent can't begin: it does not have the option \"mode\""
    );
}

#[test]
fn a_setting_that_is_refused_ends_the_turn_and_tells_what_there_is() {
    let dialogue = Dialogue { settings: vec![("model".into(), "bih".into())], ..prompted() };
    let offer = json!({"models": {"availableModels": [{"modelId": "big"}, {"modelId": "small"}]}});
    let lines = [initialized(&json!({})), opened(&offer), refused(10, -32602, "no such model")];
    let observed = talk(dialogue, &lines);
    assert_eq!(methods(&observed)[2..], ["session/set_model"]);
    insta::assert_json_snapshot!("refused", ended(&observed));
}

#[test]
fn a_session_is_resumed_where_the_agent_can_and_else_loaded_without_its_past() {
    let dialogue = Dialogue { resumes: Some("s1".into()), ..prompted() };
    let resume = initialized(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}}));
    let observed = talk(dialogue.clone(), &[resume, answered(2, &json!({}))]);
    assert_eq!(methods(&observed), ["initialize", "session/resume", "session/prompt"]);

    let load = initialized(&json!({"loadSession": true}));
    let modes =
        json!({"modes": {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}});
    let lines = [
        load,
        chunk("from before"),
        answered(2, &modes),
        chunk("from before, too"),
        answered(10, &json!({})),
        chunk("new"),
        answered(3, &json!({"stopReason": "end_turn"})),
    ];
    let as_other = Dialogue { load_as: Some(" {id}".into()), ..dialogue.clone() };
    let observed = talk(as_other, &lines);
    assert_eq!(
        methods(&observed),
        ["initialize", "session/load", "session/set_mode", "session/prompt"]
    );
    assert_eq!(says(&observed)[3]["params"]["sessionId"], " s1");
    assert!(observed.contains(&Observed::ExecutorSession("s1".into())));
    let new = Event::AssistantMessage { text: "new".into(), continued: false };
    assert_eq!(entries(&observed), [&new]);

    let observed = talk(dialogue, &[initialized(&json!({}))]);
    assert!(observed.contains(&Observed::SessionLost), "it keeps none");
    assert!(ended(&observed).error.unwrap().contains("it can't resume a session"));
}

#[test]
fn an_agent_that_wants_a_sign_in_gets_a_key_or_says_how() {
    let mut agent = initialized(&json!({}));
    let wanted = refused(2, -32000, "Authentication required");
    let failed = ended(&talk(prompted(), &[agent.clone(), wanted.clone()]));
    assert_eq!(failed.error_type, Some(ErrorType::Auth));
    assert_eq!(
        failed.error.unwrap(),
        "the agent can't begin: it demands a sign-in: Authentication required; its methods: Log in (in a browser)"
    );
    let by_key = json!({"id": "key", "name": "Key", "_meta": {"api-key": {}}});
    agent["result"]["authMethods"].as_array_mut().unwrap().push(by_key);
    let lines = [agent, wanted, answered(4, &json!({})), answered(5, &json!({"sessionId": "s1"}))];
    let observed = talk(prompted(), &lines);
    let expected = ["initialize", "session/new", "authenticate", "session/new", "session/prompt"];
    assert_eq!(methods(&observed), expected);
    assert_eq!(says(&observed)[2]["params"], json!({"methodId": "key"}));
}

#[test]
fn a_permission_is_answered_with_an_option_for_this_once() {
    let options = json!([
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "once", "name": "Once", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let observed = working(prompted(), &[permission(&options)]);
    let request = observed.iter().find_map(|one| match one {
        Observed::Ask(request) => Some(request.clone()),
        _ => None,
    });
    let request = request.unwrap();
    assert_eq!((request.key.as_str(), request.text.as_str()), ("\"p7\"", "execute rm -r /"));
    let answer = |request: &Request, verdict: &Verdict| -> Value {
        let message = answer(request, verdict).unwrap();
        assert_eq!(message.key, "answer:\"p7\"");
        let line: Value = serde_json::from_str(&message.line).unwrap();
        assert_eq!(line["id"], "p7");
        line["result"]["outcome"].clone()
    };
    let denied = Verdict::Deny { reason: "never".into() };
    let selected = |id: &str| json!({"outcome": "selected", "optionId": id});
    assert_eq!(answer(&request, &Verdict::Approve), selected("once"));
    assert_eq!(answer(&request, &denied), selected("no"));

    let mut without = request.clone();
    without.context["reject"] = Value::Null;
    assert_eq!(answer(&without, &denied), json!({"outcome": "cancelled"}));
}

#[test]
fn an_interrupt_answers_what_the_agent_waits_for_until_it_goes_on() {
    let plain = working(prompted(), &[]);
    assert_eq!(interrupt(&plain).line.lines().count(), 1);
    let asks = working(prompted(), &[permission(&json!([]))]);
    let lines = interrupt(&asks).line;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["method"], "session/cancel");
    assert_eq!(lines[1]["result"]["outcome"]["outcome"], "cancelled");
    let goes_on = update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}),
    );
    let went_on = working(prompted(), &[permission(&json!([])), goes_on]);
    assert_eq!(interrupt(&went_on).line.lines().count(), 1);
    let withdrawn =
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p7"}});
    let withdrawn = working(prompted(), &[permission(&json!([])), withdrawn]);
    assert!(withdrawn.contains(&Observed::Withdraw { key: "\"p7\"".into() }));
    assert_eq!(interrupt(&withdrawn).line.lines().count(), 1);
}

#[test]
fn what_the_agent_was_not_offered_is_refused() {
    let asks = json!({"jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}});
    let observed = working(prompted(), &[asks]);
    let last = says(&observed).pop().unwrap();
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(9), &json!(-32601)));
}

#[test]
fn failures_are_read_in_the_ways_agents_report_them() {
    let stop = answered(3, &json!({"stopReason": "end_turn"}));
    let dialogue = |name: &str| Dialogue {
        prompt: "do it".into(),
        ..Dialogue::with_options(&options(name, "none"))
    };
    let error = |code: i64, message: &str, data: Value| json!({"jsonrpc": "2.0", "id": 3, "error": {"code": code, "message": message, "data": data}});
    let unauthorized = r#"{"error":{"code":401,"message":"Invalid key.","status":"X"}}"#;
    let overloaded = json!({"details": "503 The model is overloaded."});
    let said = "Error: retried 5 times Last error: 503 The model is overloaded.";
    for (name, lines, kind, text) in [
        (
            "gemini",
            vec![error(429, "Please try again in 30s.", Value::Null)],
            ErrorType::Quota,
            "Please try again in 30s.",
        ),
        ("gemini", vec![error(401, unauthorized, Value::Null)], ErrorType::Auth, "Invalid key."),
        (
            "qwen",
            vec![error(-32603, "Internal error", overloaded)],
            ErrorType::Overloaded,
            "503 The model is overloaded.",
        ),
        (
            "opencode",
            vec![error(-32603, "Internal error: Invalid API key.", json!({"service": "x"}))],
            ErrorType::Auth,
            "Invalid API key.",
        ),
        (
            "copilot",
            vec![chunk("Well"), chunk("Info: Retrying..."), chunk("So"), chunk(said), stop.clone()],
            ErrorType::Overloaded,
            &said[7..],
        ),
        (
            "kimi",
            vec![stop.clone()],
            ErrorType::Other,
            "the agent ended its turn without a message: its model failed or can't be reached",
        ),
    ] {
        let observed = working(dialogue(name), &lines);
        let end = ended(&observed);
        assert!(end.failed, "{name}");
        assert_eq!((end.error.as_deref(), end.error_type), (Some(text), Some(kind)), "{name}");
        let resume_at = end.resume_at;
        let shown = Event::ErrorMessage { text: text.to_owned(), error_type: kind, resume_at };
        assert_eq!(entries(&observed).last(), Some(&&shown), "{name}");
    }
    let limited =
        working(dialogue("gemini"), &[error(429, "Please try again in 30s.", Value::Null)]);
    assert_eq!(ended(&limited).resume_at.unwrap().millis(), 30_000);
    assert!(
        !ended(&working(dialogue("gemini"), &[stop])).failed,
        "silence is no failure of others"
    );
}

#[test]
fn each_tool_call_gives_one_entry_however_often_it_is_updated() {
    let call = |fields: Value| {
        let mut call = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1"});
        call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        update(&call)
    };
    let lines = [
        call(
            json!({"sessionUpdate": "tool_call", "title": "provost-get_context", "kind": "read", "rawInput": {}}),
        ),
        call(
            json!({"status": "completed", "rawOutput": {"contents": [{"exitCode": 3}], "content": "ok"}}),
        ),
        call(json!({"status": "completed", "title": "later"})),
        call(json!({"toolCallId": "c4", "title": "ToolCall", "_meta": {"toolName": "tool_call"}})),
        call(
            json!({"toolCallId": "c4", "title": "ping (other MCP Server): {}", "status": "completed"}),
        ),
        call(
            json!({"toolCallId": "c5", "title": "other-pong", "kind": "read", "status": "failed"}),
        ),
        call(json!({"toolCallId": "c2", "title": "odd", "content": [{"type": "hologram"}]})),
        call(json!({"toolCallId": "c3", "title": "Write", "status": "burnt"})),
        answered(3, &json!({"stopReason": "max_tokens"})),
    ];
    let mut dialogue = prompted();
    dialogue.quirks.servers.push("provost".into());
    let observed = working(dialogue, &lines);
    insta::assert_json_snapshot!("tool_calls", shown(&observed)[4..]);
    let denied = [
        permission(&json!([])),
        call(json!({"status": "failed", "rawOutput": {"message": "The user rejected this."}})),
    ];
    let observed = working(prompted(), &denied);
    let Some(Event::ToolResult { status, .. }) = entries(&observed).last() else {
        panic!("no result")
    };
    assert_eq!(*status, ToolStatus::Denied);
}

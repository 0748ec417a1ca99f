use serde_json::{Value, json};

use super::*;
use crate::conversation::{Call, Input, Takes, Tool};

fn user(text: &str) -> Turn {
    Turn::User(text.to_owned())
}

fn result(text: &str) -> Turn {
    Turn::ToolResult(text.to_owned())
}

fn tool(name: &str, properties: &[&str]) -> Tool {
    let fields: serde_json::Map<String, Value> =
        properties.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": fields, "required": properties});
    Tool { name: name.to_owned(), namespace: None, takes: Takes::Arguments(schema) }
}

fn text_tool(name: &str) -> Tool {
    Tool { takes: Takes::Text, ..tool(name, &[]) }
}

fn claude() -> Vec<Tool> {
    let write = tool("Write", &["file_path", "content"]);
    vec![tool("ToolSearch", &["query"]), tool("Bash", &["command", "description"]), write]
}

fn asked(turns: Vec<Turn>, tools: &[Tool]) -> Plan {
    plan(&Request { turns, tools: tools.to_vec(), ..Request::default() })
}

fn said(plan: &Plan) -> String {
    let Plan::Say(parts) = plan else { panic!("{plan:?}") };
    let text = |part: &Part| match part {
        Part::Text { words, .. } => words.concat(),
        _ => String::new(),
    };
    parts.iter().map(text).collect()
}

fn called(plan: &Plan) -> (&str, &Input) {
    let Plan::Say(parts) = plan else { panic!("{plan:?}") };
    match parts.last() {
        Some(Part::Call(Call { name, input, .. })) => (name, input),
        _ => panic!("{plan:?}"),
    }
}

#[test]
fn the_last_prompt_that_names_a_scenario_chooses() {
    let mut turns = vec![user("<context>Today</context>"), user("Hello. [[text]]")];
    assert_eq!(said(&asked(turns.clone(), &claude())), TEXT);
    turns.extend([user("[[recall]]"), user("<reminder>Be brief.</reminder>")]);
    let recalled = "I remember: 1 earlier user messages, the first was \"Hello. [[text]]\"";
    assert_eq!(said(&asked(turns, &claude())), recalled);
}

#[test]
fn what_a_cli_asks_for_itself_is_no_step_of_a_scenario() {
    assert_eq!(said(&asked(vec![user("A title for: [[loop]]")], &[])), "Noted.");
    let memory = vec![user("[[loop]]"), Turn::Model, user("Write down what is worth it.")];
    assert_eq!(said(&asked(memory, &claude())), "Noted.");
    assert_eq!(
        said(&asked(vec![user("Brackets [[as in this]] mean nothing.")], &claude())),
        "Noted."
    );
}

#[test]
fn an_answer_follows_the_schema_that_the_request_gives() {
    let schema = json!({"type": "OBJECT", "required": ["next", "score", "tags"], "properties": {
        "next": {"type": "STRING", "enum": ["user", "model"]}, "score": {"type": "NUMBER"},
        "tags": {"type": "ARRAY"}, "why": {"type": "STRING"}}});
    let request = Request { answer_schema: Some(schema), ..Request::default() };
    assert_eq!(said(&plan(&request)), r#"{"next":"user","score":1,"tags":[]}"#);
}

#[test]
fn an_edit_is_a_command_a_file_and_a_word() {
    let mut turns = vec![user("[[edit:a.txt]]")];
    let first = asked(turns.clone(), &claude());
    let (name, Input::Arguments(arguments)) = called(&first) else { panic!("{first:?}") };
    assert_eq!(name, "Bash");
    assert!(arguments["command"].as_str().unwrap().contains("folder=$PWD"));

    turns.push(result("Output: {\"stdout\":\"folder=/repo/tree\\nREADME\"}"));
    let second = asked(turns.clone(), &claude());
    let expected = json!({"file_path": "/repo/tree/a.txt", "content": EDITED.1});
    assert_eq!(called(&second), ("Write", &Input::Arguments(expected)));

    turns.push(result("written"));
    assert_eq!(said(&asked(turns, &claude())), "Done: wrote a.txt.");
}

#[test]
fn an_edit_uses_the_tools_that_are_there() {
    let turns = || vec![user("[[edit]]"), result("folder=/w\n")];
    let path = |plan: &Plan| match called(plan) {
        (_, Input::Arguments(arguments)) => arguments.clone(),
        _ => panic!("{plan:?}"),
    };
    let copilot = [tool("create", &["path", "file_text"])];
    let written = json!({"path": "/w/notes.txt", "file_text": EDITED.1});
    assert_eq!(path(&asked(turns(), &copilot)), written);
    let opencode = [tool("write", &["content", "filePath"])];
    let written = json!({"content": EDITED.1, "filePath": "/w/notes.txt"});
    assert_eq!(path(&asked(turns(), &opencode)), written);

    let patch = "*** Begin Patch\n*** Add File: notes.txt\n+Written by the model.\n\
        +In two lines.\n*** End Patch\n";
    let codex = asked(turns(), &[text_tool("apply_patch")]);
    assert_eq!(called(&codex), ("apply_patch", &Input::Text(patch.to_owned())));
    let code = asked(turns(), &[text_tool("exec")]);
    let script = format!("text(await tools.apply_patch({}));", json!(patch));
    assert_eq!(called(&code), ("exec", &Input::Text(script)));

    let none = asked(turns(), &[tool("look", &[]), tool("think", &[])]);
    assert_eq!(said(&none), "No tool for edit among look, think");
}

#[test]
fn the_context_is_asked_for_wherever_its_tool_hides() {
    let start = || vec![user("[[context]]")];
    let open = [tool("mcp_provost_get_context", &[])];
    let plan = asked(start(), &open);
    assert_eq!(called(&plan), ("mcp_provost_get_context", &Input::Arguments(json!({}))));

    // Claude shows the tool once it was looked for, and says so.
    let plan = asked(start(), &claude());
    let query = json!({"query": "select:mcp__provost__get_context"});
    assert_eq!(called(&plan), ("ToolSearch", &Input::Arguments(query)));
    let loaded = vec![user("[[context]]"), Turn::Model, result(""), user("Tool loaded.")];
    let plan = asked(loaded, &open);
    assert_eq!(called(&plan).0, "mcp_provost_get_context");

    // Qwen has it called by another.
    let qwen = [tool("tool_search", &["query"]), tool("tool_call", &["name", "arguments"])];
    let plan = asked(vec![user("[[context]]"), result("get_context: …")], &qwen);
    let arguments = json!({"name": "mcp__provost__get_context", "arguments": {}});
    assert_eq!(called(&plan), ("tool_call", &Input::Arguments(arguments)));

    let hosted = [Tool { takes: Takes::Search, ..tool("tool_search", &[]) }];
    let plan = asked(start(), &hosted);
    let query = json!({"query": "get_context", "limit": 5});
    assert_eq!(called(&plan), ("tool_search", &Input::Search(query)));

    let context = r#"{"attempt_id":"0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"}"#;
    let plan = asked(vec![user("[[context]]"), result(context)], &open);
    assert_eq!(said(&plan), format!("I was told: {context}"));
}

#[test]
fn a_tool_that_never_answers_is_given_up() {
    let mut turns = vec![user("[[context]]")];
    turns.extend(std::iter::repeat_n(result("not ready"), ROUNDS));
    let plan = asked(turns, &[tool("get_context", &[])]);
    assert_eq!(said(&plan), "No tool for context among get_context");
}

#[test]
fn a_loop_has_no_end() {
    let mut turns = vec![user("[[loop]]")];
    for round in 1..100 {
        let plan = asked(turns.clone(), &claude());
        assert_eq!(said(&plan), format!("Round {round}."));
        assert_eq!(called(&plan).0, "Bash");
        turns.push(result(""));
    }
}

#[test]
fn a_slow_answer_takes_the_seconds_it_is_given() {
    let Plan::Say(parts) = asked(vec![user("[[slow:3]]")], &claude()) else { panic!() };
    let [Part::Text { words, pause }] = parts.as_slice() else { panic!("{parts:?}") };
    let count = u32::try_from(words.len()).unwrap();
    assert_eq!(*pause * count, Duration::from_secs(3));
}

#[test]
fn errors_are_refusals() {
    let refusal = |text: &str| match asked(vec![user(text)], &claude()) {
        Plan::Refuse(Refusal { reason, retry_after }) => (reason, retry_after),
        plan @ Plan::Say(_) => panic!("{plan:?}"),
    };
    let wait = Some(Duration::from_secs(90));
    assert_eq!(refusal("[[rate-limit:90]]"), (Reason::RateLimit, wait));
    assert_eq!(refusal("[[overload]]"), (Reason::Overload, None));
    assert_eq!(refusal("[[bad-key]]"), (Reason::BadKey, None));
    assert_eq!(refusal("[[no-model]]"), (Reason::NoModel, None));
}

//! Each dialect reads the same conversation, and says the same reply whole and in
//! pieces.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Dialect, aside, of};
use crate::conversation::{Call, Input, Part, Reason, Refusal, Reply, TOKENS, Takes, Tool, Turn};

const PATHS: [&str; 4] = [
    "/v1/messages",
    "/v1/responses",
    "/v1/chat/completions",
    "/v1beta/models/test-model:streamGenerateContent",
];

fn schema() -> Value {
    json!({"type": "object", "properties": {"command": {"type": "string"}}})
}

/// "Go on. [[edit]]" was said, a tool called and answered.
fn conversations() -> [Value; 4] {
    let name = "bash";
    let call = json!({"command": "ls"});
    [
        json!({"model": "test-model", "stream": true, "thinking": {"type": "adaptive"},
        "tools": [{"name": name, "input_schema": schema()}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Go on. [[edit]]"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "1", "name": name, "input": call}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1",
                    "content": [{"type": "text", "text": "done"}]}]},
        ]}),
        json!({"model": "test-model", "stream": true,
        "tools": [{"type": "function", "name": name, "parameters": schema()}],
        "input": [
            {"type": "message", "role": "developer", "content": "Be kind."},
            {"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": "Go on. [[edit]]"}]},
            {"type": "function_call", "call_id": "1", "name": name, "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "done"},
        ]}),
        json!({"model": "test-model", "stream": true,
        "tools": [{"type": "function", "function": {"name": name, "parameters": schema()}}],
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Go on. [[edit]]"},
            {"role": "assistant", "content": "", "tool_calls": []},
            {"role": "tool", "tool_call_id": "1", "content": "done"},
        ]}),
        json!({"tools": [{"functionDeclarations": [{"name": name, "parameters": schema()}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "Go on. [[edit]]"}]},
            {"role": "model", "parts": [{"functionCall": {"name": name, "args": call}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": name, "response": {"output": "done"}}}]},
        ]}),
    ]
}

fn reply() -> Reply {
    let pause = Duration::from_millis(250);
    let call = |input| Call { name: "bash".to_owned(), namespace: None, input };
    Reply {
        number: 7,
        model: "test-model".to_owned(),
        parts: vec![
            Part::Thinking("Well.".to_owned()),
            Part::Text { words: vec!["one ".to_owned(), "two".to_owned()], pause },
            Part::Call(call(Input::Arguments(json!({"command": "ls"})))),
        ],
    }
}

fn all() -> impl Iterator<Item = (&'static str, &'static dyn Dialect)> {
    PATHS.into_iter().map(|path| (path, of(path).unwrap()))
}

#[test]
fn every_dialect_reads_the_same_conversation() {
    for ((path, dialect), body) in all().zip(conversations()) {
        let request = dialect.read(path, &body);
        assert_eq!(request.model, "test-model", "{path}");
        assert!(request.streams && request.thinks, "{path}");
        let tool =
            Tool { name: "bash".to_owned(), namespace: None, takes: Takes::Arguments(schema()) };
        assert_eq!(request.tools, [tool], "{path}");
        let [Turn::User(prompt), Turn::Model, Turn::ToolResult(result)] = request.turns.as_slice()
        else {
            panic!("{path}: {:?}", request.turns)
        };
        assert_eq!(prompt, "Go on. [[edit]]");
        assert!(result.contains("done"), "{path}: {result}");
    }
}

#[test]
fn what_is_no_conversation_is_read_as_an_empty_one() {
    for (path, dialect) in all() {
        for body in [Value::Null, json!([]), json!({"messages": 1, "input": {}, "tools": "x"})] {
            assert!(dialect.read(path, &body).turns.is_empty(), "{path}");
        }
    }
}

#[test]
fn a_reply_says_the_same_whole_and_in_pieces() {
    for (path, dialect) in all() {
        let whole = dialect.whole(&reply()).to_string();
        for part in ["Well.", "one two", "bash", "ls"] {
            assert!(whole.contains(part), "{path}: {part} is not in {whole}");
        }
        let frames = dialect.stream(&reply());
        let paused = frames.iter().filter(|frame| !frame.pause.is_zero()).count();
        assert_eq!(paused, 2, "{path}: a pause before each word");
        let streamed: String = frames.iter().map(|frame| frame.data.as_str()).collect();
        for part in ["Well.", "\"one \"", "\"two\"", "bash", "ls"] {
            assert!(streamed.contains(part), "{path}: {part} is not in {streamed}");
        }
        for text in [whole, streamed] {
            assert!(text.contains(&format!(":{}", TOKENS.output)), "{path}: no usage in {text}");
        }
    }
}

#[test]
fn an_error_has_the_status_that_clients_know() {
    let refuse = |reason| {
        let refusal = Refusal { reason, retry_after: Some(Duration::from_secs(30)) };
        let status = |(_, dialect): (_, &dyn Dialect)| {
            let (status, body) = dialect.refuse(&refusal);
            assert!(body["error"]["message"].as_str().unwrap().contains("try again in 30s"));
            status.as_u16()
        };
        all().map(status).collect::<Vec<_>>()
    };
    assert_eq!(refuse(Reason::RateLimit), [429; 4]);
    assert_eq!(refuse(Reason::Overload), [529, 503, 503, 503]);
    assert_eq!(refuse(Reason::BadKey), [401; 4]);
    assert_eq!(refuse(Reason::NoModel), [404; 4]);
}

#[test]
fn codex_has_groups_of_tools_custom_ones_and_a_search() {
    let dialect = of("/v1/responses").unwrap();
    let found = json!({"type": "namespace", "name": "mcp__provost",
        "tools": [{"type": "function", "name": "get_context", "parameters": {}}]});
    let request = dialect.read(
        "/v1/responses",
        &json!({
            "input": [{"type": "tool_search_output", "tools": [found]}],
            "tools": [{"type": "custom", "name": "apply_patch"}, {"type": "tool_search"},
                {"type": "web_search"}],
        }),
    );
    let names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["apply_patch", "tool_search", "get_context"]);
    assert_eq!(request.tools[0].takes, Takes::Text);
    assert_eq!(request.tools[1].takes, Takes::Search);
    assert_eq!(request.tools[2].namespace.as_deref(), Some("mcp__provost"));
    assert_eq!(request.turns, [Turn::ToolResult(String::new())]);
}

#[test]
fn gemini_asks_for_an_answer_of_a_schema() {
    let schema = json!({"type": "OBJECT"});
    let dialect = of(PATHS[3]).unwrap();
    let body = json!({"generationConfig": {"responseSchema": schema}});
    let request = dialect.read("/v1beta/models/small:generateContent", &body);
    assert_eq!(request.answer_schema, Some(schema));
    assert_eq!((request.model.as_str(), request.streams), ("small", false));
}

#[test]
fn lists_and_counts_are_answered_and_nothing_else() {
    for path in ["/v1/models", "/v1/messages/count_tokens", "/v1beta/models/m:countTokens"] {
        assert!(of(path).is_none() && aside(path).is_some(), "{path}");
    }
    assert!(of("/v1/embeddings").is_none() && aside("/v1/embeddings").is_none());
}

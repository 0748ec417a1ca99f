//! OpenAI's Chat Completions
//! (<https://platform.openai.com/docs/api-reference/chat>), with the
//! `reasoning_content` that other vendors added.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{Dialect, each, openai_refusal, string, text_of};
use crate::conversation::{
    Call, Frame, Input, Part, Refusal, Reply, Request, TOKENS, Takes, Tool, Turn,
};

pub struct Chat;

impl Dialect for Chat {
    fn read(&self, _path: &str, body: &Value) -> Request {
        let tools = each(&body["tools"]).map(|tool| Tool {
            name: string(&tool["function"]["name"]),
            namespace: None,
            takes: Takes::Arguments(tool["function"]["parameters"].clone()),
        });
        Request {
            model: string(&body["model"]),
            streams: body["stream"] == true,
            thinks: true,
            turns: each(&body["messages"]).flat_map(turns).collect(),
            tools: tools.collect(),
            answer_schema: None,
        }
    }

    fn whole(&self, reply: &Reply) -> Value {
        let mut message = json!({"role": "assistant", "content": ""});
        let mut calls = Vec::new();
        for (index, part) in reply.parts.iter().enumerate() {
            match part {
                Part::Thinking(text) => message["reasoning_content"] = json!(text),
                Part::Text { words, .. } => message["content"] = json!(words.concat()),
                Part::Call(call) => calls.push(tool_call(reply, index, call)),
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": finish(reply)});
        completion(reply, "chat.completion", &json!([choice]), &usage())
    }

    fn stream(&self, reply: &Reply) -> Vec<Frame> {
        let chunk = |delta: Value, finish: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            Frame::data(&completion(reply, "chat.completion.chunk", &json!([choice]), &Value::Null))
        };
        let mut frames = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
        let mut calls = 0;
        for (index, part) in reply.parts.iter().enumerate() {
            for (pause, delta) in deltas(reply, index, part, calls) {
                frames.push(chunk(delta, Value::Null).after(pause));
            }
            calls += usize::from(matches!(part, Part::Call(_)));
        }
        frames.push(chunk(json!({}), finish(reply)));
        let end = completion(reply, "chat.completion.chunk", &json!([]), &usage());
        frames.push(Frame::data(&end));
        frames.push(Frame { data: "[DONE]".to_owned(), ..Frame::data(&Value::Null) });
        frames
    }

    fn refuse(&self, refusal: &Refusal) -> (StatusCode, Value) {
        openai_refusal(refusal)
    }
}

fn turns(message: &Value) -> Vec<Turn> {
    let content = &message["content"];
    match message["role"].as_str() {
        Some("assistant") => vec![Turn::Model],
        Some("tool") => vec![Turn::ToolResult(text_of(content))],
        Some("user") if content.is_array() => {
            each(content).map(|part| Turn::User(text_of(part))).collect()
        }
        Some("user") => vec![Turn::User(text_of(content))],
        _ => Vec::new(),
    }
}

fn completion(reply: &Reply, object: &str, choices: &Value, usage: &Value) -> Value {
    json!({"id": reply.id("chatcmpl", 0), "object": object, "created": 0, "model": reply.model,
        "choices": choices, "usage": usage})
}

fn finish(reply: &Reply) -> Value {
    json!(if reply.calls() { "tool_calls" } else { "stop" })
}

fn usage() -> Value {
    json!({
        "prompt_tokens": TOKENS.input, "completion_tokens": TOKENS.output,
        "total_tokens": TOKENS.input + TOKENS.output,
        "prompt_tokens_details": {"cached_tokens": TOKENS.cached},
    })
}

fn tool_call(reply: &Reply, index: usize, call: &Call) -> Value {
    let arguments = match &call.input {
        Input::Arguments(value) | Input::Search(value) => value.to_string(),
        Input::Text(text) => text.clone(),
    };
    let function = json!({"name": call.name, "arguments": arguments});
    json!({"id": reply.id("call", index), "type": "function", "function": function})
}

/// What a part adds to the message, each with the pause before it.
fn deltas(reply: &Reply, index: usize, part: &Part, calls: usize) -> Vec<(Duration, Value)> {
    match part {
        Part::Thinking(text) => vec![(Duration::ZERO, json!({"reasoning_content": text}))],
        Part::Text { words, pause } => {
            words.iter().map(|word| (*pause, json!({"content": word}))).collect()
        }
        Part::Call(call) => {
            let mut opened = tool_call(reply, index, call);
            opened["index"] = json!(calls);
            let arguments = opened["function"]["arguments"].take();
            opened["function"]["arguments"] = json!("");
            let rest = json!({"index": calls, "function": {"arguments": arguments}});
            [opened, rest].map(|call| (Duration::ZERO, json!({"tool_calls": [call]}))).into()
        }
    }
}

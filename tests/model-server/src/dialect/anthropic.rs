//! Anthropic's Messages (<https://docs.anthropic.com/en/api/messages>).

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{Dialect, each, string, text_of};
use crate::conversation::{
    Frame, Input, Part, Reason, Refusal, Reply, Request, TOKENS, Takes, Tool, Turn,
};

pub struct Anthropic;

impl Dialect for Anthropic {
    fn read(&self, _path: &str, body: &Value) -> Request {
        let tools = each(&body["tools"]).map(|tool| Tool {
            name: string(&tool["name"]),
            namespace: None,
            takes: Takes::Arguments(tool["input_schema"].clone()),
        });
        Request {
            model: string(&body["model"]),
            streams: body["stream"] == true,
            thinks: matches!(body["thinking"]["type"].as_str(), Some("enabled" | "adaptive")),
            turns: each(&body["messages"]).flat_map(turns).collect(),
            tools: tools.collect(),
            answer_schema: None,
        }
    }

    fn whole(&self, reply: &Reply) -> Value {
        let content: Vec<Value> =
            reply.parts.iter().enumerate().map(|(index, part)| block(reply, index, part)).collect();
        message(reply, &json!(content), &stop_reason(reply))
    }

    fn stream(&self, reply: &Reply) -> Vec<Frame> {
        let start = message(reply, &json!([]), &Value::Null);
        let mut frames = vec![Frame::typed(&json!({"type": "message_start", "message": start}))];
        for (index, part) in reply.parts.iter().enumerate() {
            let whole = block(reply, index, part);
            let (open, deltas) = opened(part, &whole);
            frames.push(Frame::typed(
                &json!({"type": "content_block_start", "index": index, "content_block": open}),
            ));
            let pause = match part {
                Part::Text { pause, .. } => *pause,
                _ => Duration::ZERO,
            };
            frames.extend(deltas.into_iter().map(|delta| {
                let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
                Frame::typed(&delta).after(pause)
            }));
            frames.push(Frame::typed(&json!({"type": "content_block_stop", "index": index})));
        }
        let delta = json!({"stop_reason": stop_reason(reply), "stop_sequence": null});
        let end = json!({"type": "message_delta", "delta": delta, "usage": usage()});
        frames.extend([Frame::typed(&end), Frame::typed(&json!({"type": "message_stop"}))]);
        frames
    }

    fn refuse(&self, refusal: &Refusal) -> (StatusCode, Value) {
        let (status, kind) = match refusal.reason {
            Reason::RateLimit => (429, "rate_limit_error"),
            Reason::Overload => (529, "overloaded_error"),
            Reason::BadKey => (401, "authentication_error"),
            Reason::NoModel => (404, "not_found_error"),
        };
        let error = json!({"type": kind, "message": refusal.message()});
        let status = StatusCode::from_u16(status).unwrap_or_default();
        (status, json!({"type": "error", "error": error}))
    }
}

fn turns(message: &Value) -> Vec<Turn> {
    let content = &message["content"];
    match message["role"].as_str() {
        Some("user") => {}
        Some("assistant") => return vec![Turn::Model],
        _ => return Vec::new(),
    }
    if let Some(text) = content.as_str() {
        return vec![Turn::User(text.to_owned())];
    }
    let turn = |block: &Value| match block["type"].as_str()? {
        "text" => Some(Turn::User(text_of(block))),
        "tool_result" => Some(Turn::ToolResult(text_of(block))),
        _ => None,
    };
    each(content).filter_map(turn).collect()
}

fn message(reply: &Reply, content: &Value, stop_reason: &Value) -> Value {
    json!({
        "id": reply.id("msg", 0), "type": "message", "role": "assistant", "model": reply.model,
        "content": content, "stop_reason": stop_reason, "stop_sequence": null, "usage": usage(),
    })
}

fn stop_reason(reply: &Reply) -> Value {
    json!(if reply.calls() { "tool_use" } else { "end_turn" })
}

/// What is read from a cache is not among the input's tokens here.
fn usage() -> Value {
    json!({
        "input_tokens": TOKENS.input - TOKENS.cached, "output_tokens": TOKENS.output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": TOKENS.cached,
    })
}

fn block(reply: &Reply, index: usize, part: &Part) -> Value {
    match part {
        Part::Thinking(text) => {
            json!({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})
        }
        Part::Text { words, .. } => json!({"type": "text", "text": words.concat()}),
        Part::Call(call) => {
            let input = match &call.input {
                Input::Arguments(value) | Input::Search(value) => value.clone(),
                Input::Text(text) => json!(text),
            };
            json!({"type": "tool_use", "id": reply.id("toolu", index), "name": call.name,
                "input": input})
        }
    }
}

/// A block as it begins, and what is added to it.
fn opened(part: &Part, whole: &Value) -> (Value, Vec<Value>) {
    let mut open = whole.clone();
    let deltas = match part {
        Part::Thinking(text) => {
            open["thinking"] = json!("");
            open["signature"] = json!("");
            vec![
                json!({"type": "thinking_delta", "thinking": text}),
                json!({"type": "signature_delta", "signature": whole["signature"]}),
            ]
        }
        Part::Text { words, .. } => {
            open["text"] = json!("");
            words.iter().map(|word| json!({"type": "text_delta", "text": word})).collect()
        }
        Part::Call(_) => {
            open["input"] = json!({});
            let json = whole["input"].to_string();
            vec![json!({"type": "input_json_delta", "partial_json": json})]
        }
    };
    (open, deltas)
}

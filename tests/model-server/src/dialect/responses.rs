//! OpenAI's Responses (<https://platform.openai.com/docs/api-reference/responses>),
//! with what Codex adds: groups of tools, and tools given along the way.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{Dialect, each, openai_refusal, string, text_of};
use crate::conversation::{Frame, Input, Part, Refusal, Reply, Request, TOKENS, Takes, Tool, Turn};

pub struct Responses;

impl Dialect for Responses {
    fn read(&self, _path: &str, body: &Value) -> Request {
        let input = &body["input"];
        let said = input.as_str().map(|text| Turn::User(text.to_owned()));
        // What the search has found is offered from then on.
        let found = each(input).flat_map(|item| each(&item["tools"]));
        Request {
            model: string(&body["model"]),
            streams: body["stream"] == true,
            thinks: true,
            turns: said.into_iter().chain(each(input).filter_map(turn)).collect(),
            tools: each(&body["tools"]).chain(found).flat_map(tools).collect(),
            answer_schema: body["text"]["format"].get("schema").cloned(),
        }
    }

    fn whole(&self, reply: &Reply) -> Value {
        let items = reply.parts.iter().enumerate().map(|(index, part)| item(reply, index, part));
        response(reply, "completed", &items.collect(), &usage())
    }

    fn stream(&self, reply: &Reply) -> Vec<Frame> {
        let now = |event: Value| (Duration::ZERO, event);
        let empty = response(reply, "in_progress", &json!([]), &Value::Null);
        let mut events = vec![now(json!({"type": "response.created", "response": empty}))];
        for (index, part) in reply.parts.iter().enumerate() {
            let whole = item(reply, index, part);
            let (open, deltas) = opened(part, &whole);
            let added = now(json!({"type": "response.output_item.added", "item": open}));
            let done = now(json!({"type": "response.output_item.done", "item": whole}));
            for (pause, mut event) in [added].into_iter().chain(deltas).chain([done]) {
                event["output_index"] = json!(index);
                event["item_id"] = whole["id"].clone();
                events.push((pause, event));
            }
        }
        events.push(now(json!({"type": "response.completed", "response": self.whole(reply)})));
        let number = |(number, (pause, mut event)): (usize, (Duration, Value))| {
            event["sequence_number"] = json!(number);
            Frame::typed(&event).after(pause)
        };
        events.into_iter().enumerate().map(number).collect()
    }

    fn refuse(&self, refusal: &Refusal) -> (StatusCode, Value) {
        openai_refusal(refusal)
    }
}

fn turn(item: &Value) -> Option<Turn> {
    match item["type"].as_str().unwrap_or("message") {
        "message" if item["role"] == "assistant" => Some(Turn::Model),
        "message" if item["role"] == "user" => Some(Turn::User(text_of(&item["content"]))),
        "tool_search_output" => Some(Turn::ToolResult(String::new())),
        kind if kind.ends_with("_call") => Some(Turn::Model),
        kind if kind.ends_with("_output") => Some(Turn::ToolResult(text_of(&item["output"]))),
        _ => None,
    }
}

fn tools(tool: &Value) -> Vec<Tool> {
    let takes = match tool["type"].as_str() {
        Some("function") => Takes::Arguments(tool["parameters"].clone()),
        Some("custom") => Takes::Text,
        Some("tool_search") => Takes::Search,
        Some("namespace") => {
            let group = |inner: Tool| Tool { namespace: Some(string(&tool["name"])), ..inner };
            return each(&tool["tools"]).flat_map(tools).map(group).collect();
        }
        _ => return Vec::new(),
    };
    let name = tool["name"].as_str().unwrap_or("tool_search").to_owned();
    vec![Tool { name, namespace: None, takes }]
}

fn response(reply: &Reply, status: &str, output: &Value, usage: &Value) -> Value {
    json!({
        "id": reply.id("resp", 0), "object": "response", "created_at": 0, "status": status,
        "model": reply.model, "output": output, "usage": usage, "error": null,
        "incomplete_details": null, "instructions": null, "metadata": {}, "tools": [],
        "tool_choice": "auto", "parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0,
    })
}

fn usage() -> Value {
    json!({
        "input_tokens": TOKENS.input, "input_tokens_details": {"cached_tokens": TOKENS.cached},
        "output_tokens": TOKENS.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": TOKENS.input + TOKENS.output,
    })
}

fn item(reply: &Reply, index: usize, part: &Part) -> Value {
    let mut item = match part {
        Part::Thinking(text) => {
            let summary = json!([{"type": "summary_text", "text": text}]);
            return json!({"type": "reasoning", "id": reply.id("rs", index), "summary": summary,
                "encrypted_content": "c2VjcmV0"});
        }
        Part::Text { words, .. } => {
            let text = json!({"type": "output_text", "text": words.concat(), "annotations": []});
            json!({"type": "message", "role": "assistant", "content": [text]})
        }
        Part::Call(call) => {
            let mut item = match &call.input {
                Input::Arguments(value) => json!({"type": "function_call", "name": call.name,
                    "arguments": value.to_string()}),
                Input::Text(text) => {
                    json!({"type": "custom_tool_call", "name": call.name, "input": text})
                }
                Input::Search(query) => json!({"type": "tool_search_call", "execution": "client",
                    "arguments": query}),
            };
            item["call_id"] = json!(reply.id("call", index));
            if let Some(namespace) = &call.namespace {
                item["namespace"] = json!(namespace);
            }
            item
        }
    };
    item["id"] = json!(reply.id("item", index));
    item["status"] = json!("completed");
    item
}

/// An item as it begins, and what is added to it, each with the pause before it.
fn opened(part: &Part, whole: &Value) -> (Value, Vec<(Duration, Value)>) {
    let mut open = whole.clone();
    if open.get("status").is_some() {
        open["status"] = json!("in_progress");
    }
    let now = |event: Value| (Duration::ZERO, event);
    let deltas = match part {
        Part::Thinking(text) => {
            open["summary"] = json!([]);
            let part = |text: &str| json!({"type": "summary_text", "text": text});
            vec![
                now(json!({"type": "response.reasoning_summary_part.added", "summary_index": 0,
                    "part": part("")})),
                now(json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0,
                    "delta": text})),
                now(json!({"type": "response.reasoning_summary_text.done", "summary_index": 0,
                    "text": text})),
                now(json!({"type": "response.reasoning_summary_part.done", "summary_index": 0,
                    "part": part(text)})),
            ]
        }
        Part::Text { words, pause } => {
            let part = whole["content"][0].clone();
            open["content"] = json!([]);
            let empty = json!({"type": "output_text", "text": "", "annotations": []});
            let event = |kind: &str| json!({"type": kind, "content_index": 0});
            let mut added = event("response.content_part.added");
            added["part"] = empty;
            let mut done = event("response.content_part.done");
            done["part"] = part;
            let deltas = words.iter().map(|word| {
                let mut delta = event("response.output_text.delta");
                delta["delta"] = json!(word);
                (*pause, delta)
            });
            [now(added)].into_iter().chain(deltas).chain([now(done)]).collect()
        }
        Part::Call(_) => Vec::new(),
    };
    (open, deltas)
}

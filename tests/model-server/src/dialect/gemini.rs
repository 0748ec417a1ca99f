//! Gemini's `generateContent` and `streamGenerateContent`
//! (<https://ai.google.dev/api/generate-content>).

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{Dialect, each, string};
use crate::conversation::{
    Frame, Input, Part, Reason, Refusal, Reply, Request, TOKENS, Takes, Tool, Turn,
};

pub struct Gemini;

impl Dialect for Gemini {
    /// The path ends with `/models/MODEL:METHOD`.
    fn read(&self, path: &str, body: &Value) -> Request {
        let (_, last) = path.rsplit_once('/').unwrap_or_default();
        let (model, method) = last.split_once(':').unwrap_or_default();
        let declared = each(&body["tools"]).flat_map(|tool| each(&tool["functionDeclarations"]));
        let tools = declared.map(|tool| {
            let schema = tool.get("parametersJsonSchema").unwrap_or(&tool["parameters"]);
            Tool {
                name: string(&tool["name"]),
                namespace: None,
                takes: Takes::Arguments(schema.clone()),
            }
        });
        let config = &body["generationConfig"];
        let schema = config.get("responseJsonSchema").or(config.get("responseSchema"));
        Request {
            model: model.to_owned(),
            streams: method.starts_with("stream"),
            thinks: true,
            turns: each(&body["contents"]).flat_map(turns).collect(),
            tools: tools.collect(),
            answer_schema: schema.cloned(),
        }
    }

    fn whole(&self, reply: &Reply) -> Value {
        let parts = reply.parts.iter().enumerate().map(|(index, part)| piece(reply, index, part));
        response(reply, &parts.collect(), Some("STOP"))
    }

    fn stream(&self, reply: &Reply) -> Vec<Frame> {
        let frame = |piece: Value| Frame::data(&response(reply, &json!([piece]), None));
        let mut frames = Vec::new();
        for (index, part) in reply.parts.iter().enumerate() {
            if let Part::Text { words, pause } = part {
                let each = words.iter().map(|word| frame(json!({"text": word})).after(*pause));
                frames.extend(each);
            } else {
                frames.push(frame(piece(reply, index, part)));
            }
        }
        frames.push(Frame::data(&response(reply, &json!([{"text": ""}]), Some("STOP"))));
        frames
    }

    /// Errors of Google's APIs (<https://cloud.google.com/apis/design/errors>).
    fn refuse(&self, refusal: &Refusal) -> (StatusCode, Value) {
        let (status, name) = match refusal.reason {
            Reason::RateLimit => (StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED"),
            Reason::Overload => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
            Reason::BadKey => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
            Reason::NoModel => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        };
        let retry = refusal.retry_after.map(|wait| {
            json!({"@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{}s", wait.as_secs())})
        });
        let details: Vec<Value> = retry.into_iter().collect();
        let error = json!({"code": status.as_u16(), "message": refusal.message(), "status": name,
            "details": details});
        (status, json!({"error": error}))
    }
}

fn turns(content: &Value) -> Vec<Turn> {
    if content["role"] == "model" {
        return vec![Turn::Model];
    }
    let turn = |part: &Value| {
        let answer = part.get("functionResponse").map(|answer| &answer["response"]);
        match answer {
            Some(answer) => Some(Turn::ToolResult(answer.to_string())),
            None => part["text"].as_str().map(|text| Turn::User(text.to_owned())),
        }
    };
    each(&content["parts"]).filter_map(turn).collect()
}

fn response(reply: &Reply, parts: &Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    let mut response = json!({"modelVersion": reply.model, "responseId": reply.id("response", 0)});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
        response["usageMetadata"] = json!({
            "promptTokenCount": TOKENS.input, "candidatesTokenCount": TOKENS.output,
            "totalTokenCount": TOKENS.input + TOKENS.output,
            "cachedContentTokenCount": TOKENS.cached,
        });
    }
    response["candidates"] = json!([candidate]);
    response
}

fn piece(reply: &Reply, index: usize, part: &Part) -> Value {
    match part {
        Part::Thinking(text) => json!({"text": text, "thought": true}),
        Part::Text { words, .. } => json!({"text": words.concat()}),
        Part::Call(call) => {
            let args = match &call.input {
                Input::Arguments(value) | Input::Search(value) => value.clone(),
                Input::Text(text) => json!({"input": text}),
            };
            let call = json!({"id": reply.id("call", index), "name": call.name, "args": args});
            json!({"functionCall": call, "thoughtSignature": "c2lnbmVk"})
        }
    }
}

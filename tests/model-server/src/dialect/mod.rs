//! The four interfaces that coding-agent CLIs speak to models. Each is one file:
//! it reads requests and writes replies. Pure.

mod anthropic;
mod chat;
mod gemini;
mod responses;
#[cfg(test)]
mod tests;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::conversation::{Frame, Reason, Refusal, Reply, Request};

/// One of them.
pub trait Dialect: Sync {
    /// The request in a POST of `body` to `path`.
    fn read(&self, path: &str, body: &Value) -> Request;

    /// The reply as one JSON value.
    fn whole(&self, reply: &Reply) -> Value;

    /// The reply as server-sent events.
    fn stream(&self, reply: &Reply) -> Vec<Frame>;

    /// Status and body of an error.
    fn refuse(&self, refusal: &Refusal) -> (StatusCode, Value);
}

/// The one that a path belongs to.
#[must_use]
pub fn of(path: &str) -> Option<&'static dyn Dialect> {
    if path.ends_with("/messages") {
        Some(&anthropic::Anthropic)
    } else if path.ends_with("/responses") {
        Some(&responses::Responses)
    } else if path.ends_with("/chat/completions") {
        Some(&chat::Chat)
    } else if path.ends_with("enerateContent") {
        Some(&gemini::Gemini)
    } else {
        None
    }
}

/// What else CLIs ask for: lists of models, and how many tokens a text has.
#[must_use]
pub fn aside(path: &str) -> Option<Value> {
    if path.ends_with("/models") {
        let models = json!([{"id": "test-model", "object": "model", "type": "model",
            "display_name": "Test", "created": 0, "owned_by": "test"}]);
        Some(json!({"object": "list", "data": models, "models": [], "has_more": false}))
    } else if path.ends_with("/count_tokens") {
        Some(json!({"input_tokens": 100}))
    } else if path.ends_with(":countTokens") {
        Some(json!({"totalTokens": 100}))
    } else {
        None
    }
}

/// OpenAI's errors (<https://platform.openai.com/docs/guides/error-codes>).
fn openai_refusal(refusal: &Refusal) -> (StatusCode, Value) {
    let (status, code) = match refusal.reason {
        Reason::RateLimit => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
        Reason::Overload => (StatusCode::SERVICE_UNAVAILABLE, "server_is_overloaded"),
        Reason::BadKey => (StatusCode::UNAUTHORIZED, "invalid_api_key"),
        Reason::NoModel => (StatusCode::NOT_FOUND, "model_not_found"),
    };
    let error = json!({"message": refusal.message(), "type": code, "code": code, "param": null});
    (status, json!({"error": error}))
}

/// The text of a message's content, in whichever form the dialects have it.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().map(text_of).collect();
            texts.join("\n")
        }
        Value::Object(part) => {
            let keys = ["text", "content", "output"];
            keys.iter().find_map(|key| part.get(*key)).map(text_of).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// The elements of an array; none of anything else.
fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The string, or an empty one.
fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

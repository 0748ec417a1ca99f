//! Messages to an agent, as JSON-RPC. Pure.

use provost_actors::executor::Message;
use serde::Serialize;
use serde_json::{Value, json};

/// A request of ours.
pub fn request(key: &str, id: u32, method: &str, params: &impl Serialize) -> Message {
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": value(params) });
    Message { key: key.to_owned(), line: line.to_string() }
}

/// The answer to a request of the agent.
pub fn answer(id: &Value, result: &Value) -> Message {
    let line = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    Message { key: format!("answer:{id}"), line: line.to_string() }
}

/// The answer to a request for a method that we did not offer.
pub fn not_found(id: &Value, method: &str) -> Message {
    let error = json!({ "code": -32601, "message": format!("Method not found: {method}") });
    let line = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    Message { key: format!("answer:{id}"), line: line.to_string() }
}

/// A notification of ours, as a line.
pub fn notification(method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": value(params) }).to_string()
}

/// Can't fail: the protocol's types hold strings, numbers, and paths that came from JSON.
fn value(params: &impl Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}

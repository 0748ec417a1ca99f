//! Messages to an agent, as JSON-RPC. Pure.

use provost_actors::executor::Message;
use serde::Serialize;
use serde_json::{Value, json};

use crate::executors::json::message;

/// A request of ours. Its parameters hold strings, numbers, and paths that came from JSON.
pub fn request(key: &str, id: u32, method: &str, params: &impl Serialize) -> Message {
    message(key, &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// The answer to a request of the agent.
pub fn answer(id: &Value, result: &Value) -> Message {
    message(format!("answer:{id}"), &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// The answer to a request for a method that we did not offer.
pub fn not_found(id: &Value, method: &str) -> Message {
    let error = json!({ "code": -32601, "message": format!("Method not found: {method}") });
    message(format!("answer:{id}"), &json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

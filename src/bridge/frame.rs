//! The parts of a JSON-RPC line that the bridge must understand. The values of all other parts stay byte for
//! byte as they came: a number that no type of ours can hold must not change. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use provost_actors::refusal::Refusal;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::jsonrpc;

/// The key in `params._meta` that requests have since the protocol's version 2026-07-28.
const MODERN: &str = "io.modelcontextprotocol/protocolVersion";

/// The key in `params._meta` for the bridge's own id of a tool call.
pub const CALL_ID: &str = "provost/call_id";

/// A line by its kind.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
        modern: bool,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a str>,
    },
    Response {
        id: Id,
        failed: bool,
    },
    /// Not one JSON-RPC message: no JSON, a batch, or an id of another type.
    Other,
}

/// A request's id as JSON in a normal form: an answer matches even if it escapes the id differently.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(String);

impl Id {
    /// `None`: neither a string nor a whole number of 64 bits.
    pub fn read(value: &Value) -> Option<Self> {
        let whole = match value {
            Value::String(_) => true,
            Value::Number(number) => number.is_i64() || number.is_u64(),
            _ => false,
        };
        whole.then(|| Self(value.to_string()))
    }
}

/// The fields that tell the kinds of a message apart.
#[derive(Deserialize)]
struct Outline<'a> {
    id: Option<Value>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

impl<'a> Frame<'a> {
    /// Tells what a line is. A request that the daemon could not parse as a whole is `Other`.
    pub fn read(line: &'a [u8]) -> Self {
        let text = str::from_utf8(line).ok();
        let outline = text.and_then(|text| serde_json::from_str::<Outline<'_>>(text).ok());
        let Some(outline) = outline else { return Self::Other };
        let id = outline.id.as_ref().map(Id::read);
        match (outline.method, id) {
            // The outline ignores faults in skipped values which a whole parse refuses: half a surrogate
            // pair, a number out of range, too much depth. The daemon can't answer such a line with its id,
            // so it is no request here: nothing would ever remove it from the waiting ones.
            (Some(method), Some(Some(id))) => match serde_json::from_slice::<Value>(line) {
                Ok(request) => {
                    let modern = request["params"]["_meta"].get(MODERN).is_some();
                    Self::Request { id, method, modern }
                }
                Err(_) => Self::Other,
            },
            (Some(method), None) => {
                Self::Notification { method, params: outline.params.map(RawValue::get) }
            }
            (None, Some(Some(id))) if outline.result.is_some() || outline.error.is_some() => {
                Self::Response { id, failed: outline.error.is_some() }
            }
            _ => Self::Other,
        }
    }
}

/// The id of the request that a `notifications/cancelled` cancels. `None`: the params name none.
pub fn cancelled_id(params: Option<&str>) -> Option<Id> {
    let params: Value = serde_json::from_str(params?).ok()?;
    Id::read(&params["requestId"])
}

type Object = BTreeMap<String, Box<RawValue>>;

/// The answer to a line that is not JSON, or not JSON-RPC (JSON-RPC 2.0, section 5.1).
pub fn malformed(line: &[u8]) -> Vec<u8> {
    match serde_json::from_slice::<Value>(line) {
        Err(_) => error(None, -32700, "Parse error", None),
        Ok(value) => {
            let id = value.get("id").and_then(Id::read);
            error(id.as_ref(), -32600, "Invalid request", None)
        }
    }
}

/// The line with `params._meta["provost/call_id"]` set. `None`: `params` or `_meta` is no object, so the
/// line goes on unchanged.
pub fn with_call_id(line: &[u8], call_id: &str) -> Option<Vec<u8>> {
    let mut message: Object = serde_json::from_slice(line).ok()?;
    let mut params: Object = serde_json::from_str(message.get("params")?.get()).ok()?;
    let mut meta: Object = match params.get("_meta") {
        Some(meta) => serde_json::from_str(meta.get()).ok()?,
        None => Object::new(),
    };
    meta.insert(CALL_ID.to_owned(), raw(&call_id)?);
    params.insert("_meta".to_owned(), raw(&meta)?);
    message.insert("params".to_owned(), raw(&params)?);
    serde_json::to_vec(&message).ok()
}

/// The line with another id. `None`: it is no JSON object.
pub fn with_id(line: &[u8], id: &str) -> Option<Vec<u8>> {
    let mut message: Object = serde_json::from_slice(line).ok()?;
    message.insert("id".to_owned(), raw(&id)?);
    serde_json::to_vec(&message).ok()
}

fn raw(value: &impl Serialize) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(value).ok()
}

/// The refusal of a tool call: the envelope as text and as structured content, in the daemon's form.
pub fn refused_call(id: &Id, modern: bool, refusal: &Refusal) -> Vec<u8> {
    let envelope = refusal.envelope();
    let mut result = json!({
        "content": [{"type": "text", "text": envelope.to_string()}],
        "structuredContent": envelope,
        "isError": true,
    });
    if modern {
        result["resultType"] = json!("complete");
    }
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.0).into_bytes()
}

/// The refusal of any other request: the error -32000, which JSON-RPC leaves to servers.
pub fn refused_request(id: &Id, refusal: &Refusal) -> Vec<u8> {
    error(Some(id), -32000, &refusal.message, Some(refusal.envelope()))
}

/// A JSON-RPC error. `None`: the id is unknown, and becomes null.
pub fn error(id: Option<&Id>, code: i32, message: &str, data: Option<Value>) -> Vec<u8> {
    let mut error = json!({"code": code, "message": message});
    if let Some(data) = data {
        error["data"] = data;
    }
    let id = id.map_or("null", |id| &id.0);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}

/// The id of a message of which only the beginning is known. `None`: it is not in the beginning.
pub fn id_in_head(head: &[u8]) -> Option<Id> {
    jsonrpc::id_in_head(head).as_ref().and_then(Id::read)
}

#[cfg(test)]
mod tests {
    use provost_actors::refusal::Code;

    use super::*;

    fn id(value: &Value) -> Id {
        Id::read(value).unwrap()
    }

    #[test]
    fn kinds_of_lines_are_distinguished() {
        let read = |line: &'static str| Frame::read(line.as_bytes());
        let request = |id_value: Value, modern| Frame::Request {
            id: id(&id_value),
            method: "a/b".into(),
            modern,
        };
        assert_eq!(read(r#"{"id":1,"method":"a\/b"}"#), request(json!(1), false));
        assert_eq!(
            read(
                r#"{"id":"\u0061","method":"a/b","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#
            ),
            request(json!("a"), true)
        );
        assert_eq!(
            read(r#"{"method":"n","params":{}}"#),
            Frame::Notification { method: "n".into(), params: Some("{}") }
        );
        assert_eq!(
            read(r#"{"id":1,"result":{}}"#),
            Frame::Response { id: id(&json!(1)), failed: false }
        );
        assert_eq!(
            read(r#"{"id":1,"error":{}}"#),
            Frame::Response { id: id(&json!(1)), failed: true }
        );
        for line in [
            "",
            "{",
            "[]",
            "1",
            r#"{"id":1}"#,
            r#"{"id":1.5,"method":"a"}"#,
            r#"{"id":[],"method":"a"}"#,
            r#"{"id":1,"method":"a","params":{"text":"\ud800"}}"#,
            r#"{"id":1,"method":"a","params":{"number":1e400}}"#,
        ] {
            assert_eq!(read(line), Frame::Other, "{line}");
        }
        assert_eq!(Frame::read(b"{\"method\":\"\xff\"}"), Frame::Other);
    }

    #[test]
    fn a_stamp_changes_nothing_else() {
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"z":1e400,"a":123456789012345678901},"_meta":{"progressToken":7}}}"#;
        let stamped = String::from_utf8(with_call_id(line, "c").unwrap()).unwrap();
        assert!(stamped.contains(r#""arguments":{"z":1e400,"a":123456789012345678901}"#));
        assert!(stamped.contains(r#""_meta":{"progressToken":7,"provost/call_id":"c"}"#));
        assert_eq!(with_call_id(br#"{"id":1,"params":[]}"#, "c"), None);
        assert_eq!(with_call_id(br#"{"id":1}"#, "c"), None);
    }

    #[test]
    fn a_refused_call_has_the_envelope_in_its_agreed_order_twice() {
        let refusal = Refusal::new(Code::DaemonRestarting, "Gone.").detail("a", 1);
        let line = String::from_utf8(refused_call(&id(&json!("x")), true, &refusal)).unwrap();
        insta::assert_snapshot!(line);
        let request = String::from_utf8(refused_request(&id(&json!(2)), &refusal)).unwrap();
        insta::assert_snapshot!(request);
    }

    #[test]
    fn an_id_is_found_in_a_head_that_is_cut() {
        let head =
            br#"{"jsonrpc":"2.0","method":"tools/call","id":"a b","params":{"id":9,"x":"yyyy"#;
        assert_eq!(id_in_head(head), Some(id(&json!("a b"))));
        assert_eq!(id_in_head(br#"{"params":{"id":9,"x":"yyyy"#), None);
        assert_eq!(id_in_head(br#"[{"id":9"#), None);
    }
}

//! Judges one line from the peer: it is a message for the server, or gets a JSON-RPC error as its answer.
//! Pure; the transport reads and writes.
//!
//! The rules are those of JSON-RPC 2.0 §4-6 with the restrictions of MCP: one object a line, no batches,
//! and ids that are strings or integers. Every line is answered apart from notifications, responses and
//! blank lines, so that every caller gets an answer, under its id if that can be read.

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, JsonRpcMessage, RequestId,
};
use serde_json::{Map, Value, json};

use crate::{jsonrpc, lenient};

/// What to do with a line.
#[derive(Debug)]
pub enum InputLine {
    /// Hand it to the server.
    Message(Box<ClientJsonRpcMessage>),
    /// Answer it with this error.
    Rejected(Rejection),
    /// Blank, or something that JSON-RPC leaves unanswered.
    Nothing,
}

/// The JSON-RPC error for a line that does not reach the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// `None` is written as `null`: the line's id could not be read.
    pub id: Option<RequestId>,
    pub code: ErrorCode,
    pub message: String,
}

impl Rejection {
    fn new(id: Option<RequestId>, code: ErrorCode, message: impl Into<String>) -> Self {
        Self { id, code, message: message.into() }
    }

    fn invalid(id: Option<RequestId>, message: impl Into<String>) -> Self {
        Self::new(id, ErrorCode::INVALID_REQUEST, message)
    }

    /// The rejection of a line longer than `limit` bytes. `start` is its beginning, where its id is
    /// looked for.
    pub fn oversized(start: &[u8], limit: usize) -> Self {
        let id = jsonrpc::id_in_head(start).and_then(|id| serde_json::from_value(id).ok());
        Self::invalid(id, format!("the message is longer than {limit} bytes"))
    }

    /// The rejection of a request whose id belongs to one that is still unanswered.
    pub fn duplicate(id: RequestId) -> Self {
        let message = format!("a request with the id {id} is still in flight");
        Self::invalid(Some(id), message)
    }

    /// The line to write, with its `\n`.
    pub fn to_line(&self) -> Vec<u8> {
        let error = json!({"code": self.code.0, "message": self.message});
        let mut line = json!({"jsonrpc": "2.0", "id": self.id, "error": error}).to_string();
        line.push('\n');
        line.into_bytes()
    }
}

/// Judges one line, given without its `\n`.
pub fn read(line: &[u8]) -> InputLine {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return InputLine::Nothing;
    }
    let read = match parsed(line) {
        Ok(Value::Object(object)) => read_object(object),
        Ok(Value::Array(_)) => {
            let message = "Provost takes no batches: send each message on a line of its own";
            Err(Rejection::invalid(None, message))
        }
        Ok(_) => Err(Rejection::invalid(None, "a message is a JSON object")),
        Err(id) => {
            let message = "the line is not one JSON text of at most 127 levels";
            Err(Rejection::new(id, ErrorCode::PARSE_ERROR, message))
        }
    };
    read.unwrap_or_else(InputLine::Rejected)
}

/// The line as JSON; `Err`: its id, if that can be read. Odd characters are repaired, but a message is
/// never accepted with a part left out: one that is too deeply nested is rejected.
fn parsed(line: &[u8]) -> Result<Value, Option<RequestId>> {
    serde_json::from_slice(line).or_else(|error| {
        let repaired = lenient::read(line);
        let is_whole = !error.to_string().starts_with("recursion limit");
        match repaired {
            Some(value) if is_whole => Ok(value),
            repaired => {
                let id = repaired.and_then(|value| value.get("id").cloned());
                let id = id.or_else(|| jsonrpc::id_in_head(line));
                Err(id.and_then(|id| serde_json::from_value(id).ok()))
            }
        }
    })
}

/// Judges a JSON object by the rules above, in the order in which a client would fix its faults.
fn read_object(object: Map<String, Value>) -> Result<InputLine, Rejection> {
    let raw_id = object.get("id");
    let id = raw_id.and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(Rejection::invalid(id, "jsonrpc must be \"2.0\""));
    }
    let Some(method) = object.get("method") else {
        if object.contains_key("result") || object.contains_key("error") {
            return Ok(typed(object).map_or(InputLine::Nothing, InputLine::Message));
        }
        return Err(Rejection::invalid(id, "a message has a method, a result or an error"));
    };
    let Some(method) = method.as_str().map(str::to_owned) else {
        return Err(Rejection::invalid(id, "method must be a string"));
    };
    if raw_id.is_none() {
        return Ok(typed(object).map_or(InputLine::Nothing, InputLine::Message));
    }
    if id.is_none() {
        return Err(Rejection::invalid(None, "id must be a string or an integer"));
    }
    let params = object.get("params");
    if !matches!(params, None | Some(Value::Object(_) | Value::Array(_) | Value::Null)) {
        return Err(Rejection::invalid(id, "params must be an object"));
    }
    let fault = params_fault(&method, params);
    match typed(object) {
        // rmcp reads a request whose parameters do not fit its method as a custom request: for methods
        // that are served here, that is an error in the parameters.
        Some(message) if !(is_custom_request(&message) && is_served(&method)) => {
            Ok(InputLine::Message(message))
        }
        _ => Err(Rejection::new(id, ErrorCode::INVALID_PARAMS, fault)),
    }
}

fn typed(object: Map<String, Value>) -> Option<Box<ClientJsonRpcMessage>> {
    serde_json::from_value(Value::Object(object)).ok().map(Box::new)
}

fn is_custom_request(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::CustomRequest(_)))
}

/// The id that a `notifications/cancelled` names; its request gets no answer. `None` for all other
/// messages.
pub fn cancelled_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    let JsonRpcMessage::Notification(notification) = message else { return None };
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => {
            cancelled.params.request_id.as_ref()
        }
        _ => None,
    }
}

/// The methods that are served and whose parameters are checked, of both eras of the protocol. All others
/// are unknown methods, whatever their parameters are.
const SERVED: &str = "initialize server/discover ping prompts/get prompts/list resources/list \
    resources/templates/list resources/read subscriptions/listen tools/list tools/call";

fn is_served(method: &str) -> bool {
    SERVED.split(' ').any(|served| served == method)
}

/// What is wrong with the parameters of a served method, in a sentence.
fn params_fault(method: &str, params: Option<&Value>) -> String {
    let Some(Value::Object(params)) = params else {
        return format!("{method} needs params, an object");
    };
    if method == "tools/call" {
        if !params.get("name").is_some_and(Value::is_string) {
            return "tools/call needs params.name, the name of a tool".to_owned();
        }
        if !matches!(params.get("arguments"), None | Some(Value::Object(_) | Value::Null)) {
            return "params.arguments of tools/call must be an object".to_owned();
        }
    }
    format!("the params of {method} lack a field or have one of the wrong type")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rejection(line: &str) -> (Option<String>, i32) {
        match read(line.as_bytes()) {
            InputLine::Rejected(rejection) => {
                (rejection.id.map(|id| id.to_string()), rejection.code.0)
            }
            other => panic!("{line} became {other:?}"),
        }
    }

    #[test]
    fn malformed_json_is_a_parse_error_without_id() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for line in ["{", "nonsense", deep.as_str()] {
            assert_eq!(rejection(line), (None, -32700), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_no_json_is_answered_with_its_id() {
        let one = (Some("1".to_owned()), -32700);
        assert_eq!(rejection(r#"{"id":1} {"id":2}"#), one);
        assert_eq!(rejection(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"#), one);
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let line = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":{deep}}},"id":1}}"#);
        assert_eq!(rejection(&line), one);
    }

    #[test]
    fn an_odd_character_costs_that_character_alone() {
        for text in [&b"\\ud83d"[..], b"\xff", b"\0"] {
            let line = [
                &br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"#[..],
                text,
                b"\"}}",
            ]
            .concat();
            assert!(matches!(read(&line), InputLine::Message(_)), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn json_that_is_no_message_is_an_invalid_request() {
        for line in ["[]", "1", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "{}"] {
            assert_eq!(rejection(line), (None, -32600), "{line}");
        }
        for id in ["null", "1.5", "true", "{}", "99999999999999999999"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(rejection(&line), (None, -32600), "{line}");
        }
        let seven = (Some("7".to_owned()), -32600);
        assert_eq!(rejection(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#), seven);
        assert_eq!(rejection(r#"{"jsonrpc":"2.0","id":7,"method":5}"#), seven);
        assert_eq!(rejection(r#"{"jsonrpc":"2.0","id":7}"#), seven);
        assert_eq!(rejection(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":3}"#), seven);
    }

    #[test]
    fn malformed_standard_requests_have_invalid_params() {
        for params in [
            "",
            r#","params":{}"#,
            r#","params":{"name":5}"#,
            r#","params":{"name":"x","arguments":[]}"#,
            r#","params":[]"#,
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call"{params}}}"#);
            assert_eq!(rejection(&line), (Some("a".to_owned()), -32602), "{line}");
        }
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}"#;
        assert_eq!(rejection(line), (Some("1".to_owned()), -32602));
    }

    #[test]
    fn bom_crlf_blanks_and_integral_ids_are_fine() {
        for blank in ["", "  ", "\r", "\t"] {
            assert!(matches!(read(blank.as_bytes()), InputLine::Nothing));
        }
        for line in [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\r",
            r#"{"jsonrpc":"2.0","id":2.0,"method":"getNextTask","params":null}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#,
        ] {
            assert!(matches!(read(line.as_bytes()), InputLine::Message(_)), "{line}");
        }
    }

    #[test]
    fn the_id_of_an_oversized_line_is_found_at_the_top_level_only() {
        let find =
            |text: &str| Rejection::oversized(text.as_bytes(), 9).id.map(|id| id.to_string());
        assert_eq!(find(r#"{"jsonrpc":"2.0","id":"x","params":{"a"#), Some("x".to_owned()));
        assert_eq!(find(r#"{"meta":{"id":1},"id":2,"params":"#), Some("2".to_owned()));
        assert_eq!(find(r#"{"params":{"id":1,"text":"aaaa"#), None);
        assert_eq!(find("{\"text\":\"\\\"id\\\":5"), None);
        assert_eq!(find(&format!(r#"{{"text":"{}","id":1}}"#, "a".repeat(2000))), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = Rejection::oversized(&bytes, 9);
        }
    }
}

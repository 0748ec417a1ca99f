//! Each tool as `POST /api/v1/<tool>`: the same arguments, answers and errors as over MCP.

use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value, json};

use super::{RequestContext, problem};
use crate::tools::{REQUEST_ID, RunKind, table, worker_error};

/// The header that makes a repeated call the same call
/// (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>).
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Handles `POST /api/v1/<tool>`. A repeated call with the same key has `idempotency-replayed: true`
/// and the first call's answer. The worker tools have an error envelope of their own.
pub async fn call(
    Path(name): Path<String>,
    desk: RequestContext,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(tool) = table::find(&name) else {
        let refusal = problem::no_tool(&name, &desk.caller);
        let mut response = problem::as_json(&refusal);
        *response.status_mut() = axum::http::StatusCode::NOT_FOUND;
        return response;
    };
    let arguments = match arguments(&headers, &body, tool.kind == RunKind::Change) {
        Ok(arguments) => arguments,
        Err(refusal) => return problem::as_json(&refusal),
    };
    match desk.calls.call(tool, arguments.clone(), None).await {
        Ok(done) => {
            let mut response = Json(done.value).into_response();
            if done.deduplicated {
                // The answer of an earlier, equal call.
                let replayed = HeaderValue::from_static("true");
                response.headers_mut().insert("idempotency-replayed", replayed);
            }
            response
        }
        Err(refusal) if tool.is_workers() => {
            let refusal = refusal.of_tool(tool.name);
            let agent = &desk.caller.agent;
            let envelope = worker_error::envelope(&refusal, agent, &Value::Object(arguments));
            problem::enveloped(&refusal, envelope)
        }
        Err(refusal) => problem::as_json(&refusal),
    }
}

/// The body as arguments, with the `Idempotency-Key` as `request_id` if the tool changes something.
/// `invalid_argument`: another content type, no JSON object, or two different keys.
fn arguments(
    headers: &HeaderMap,
    body: &[u8],
    is_change: bool,
) -> Result<Map<String, Value>, Refusal> {
    let wrong = |message: String| Refusal::new(Code::InvalidArgument, message);
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_json =
        kind.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"));
    if !body.is_empty() && !is_json {
        let message = format!("the body is `{kind}`, and a call takes application/json");
        return Err(wrong(message).hint("Send `Content-Type: application/json`."));
    }
    let given = if body.is_empty() {
        json!({})
    } else {
        serde_json::from_slice(body).map_err(|error| {
            wrong(format!("the body is not JSON: {error}"))
                .hint("Send one JSON object with the tool's arguments.")
        })?
    };
    let Value::Object(mut arguments) = given else {
        return Err(wrong("the body is JSON, and no object".to_owned())
            .hint("Send one JSON object with the tool's arguments."));
    };
    let Some(key) = headers.get(IDEMPOTENCY_KEY).filter(|_| is_change) else {
        return Ok(arguments);
    };
    // A quoted string, as the draft has it, or the bare text that most clients send.
    let key = key.to_str().map_err(|_| {
        wrong("the header Idempotency-Key has other characters than those of ASCII".to_owned())
            .hint("Send a key of letters, digits and dashes, such as a UUID.")
    })?;
    let key = key.trim().trim_matches('"');
    match arguments.get(REQUEST_ID).and_then(Value::as_str) {
        Some(own) if own != key => {
            let message = "Idempotency-Key and request_id are two ids for one call";
            Err(wrong(message.to_owned()).hint("Send one of them.").detail("path", REQUEST_ID))
        }
        _ => {
            arguments.insert(REQUEST_ID.to_owned(), json!(key));
            Ok(arguments)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given
            .iter()
            .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_key_becomes_the_request_id_of_changes() {
        let given = headers(&[
            ("content-type", "application/json; charset=utf-8"),
            (IDEMPOTENCY_KEY, "\"k 1\""),
        ]);
        let own =
            |body: &str, change| arguments(&given, body.as_bytes(), change).map(Value::Object);
        assert_eq!(own("{\"a\":1}", true).unwrap(), json!({"a": 1, "request_id": "k 1"}));
        assert_eq!(own("{\"request_id\":\"k 1\"}", true).unwrap(), json!({"request_id": "k 1"}));
        assert_eq!(own("{}", false).unwrap(), json!({}));
        assert_eq!(
            own("{\"request_id\":\"other\"}", true).unwrap_err().code,
            Code::InvalidArgument
        );
    }

    #[test]
    fn only_a_json_object_is_a_call() {
        let json_type = headers(&[("content-type", "application/json")]);
        assert!(arguments(&HeaderMap::new(), b"", true).unwrap().is_empty());
        for wrong in ["[]", "1", "{", "null"] {
            assert!(arguments(&json_type, wrong.as_bytes(), true).is_err(), "{wrong}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            assert!(arguments(&headers(&[("content-type", kind)]), b"{}", true).is_err(), "{kind}");
        }
        assert!(arguments(&HeaderMap::new(), b"{}", true).is_err());
    }

    #[test]
    fn a_key_that_is_not_ascii_is_refused_by_its_name() {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_bytes("é".as_bytes()).unwrap());
        let refused = arguments(&headers, b"", true).unwrap_err();
        assert!(refused.message.contains("Idempotency-Key"), "{refused}");
    }
}

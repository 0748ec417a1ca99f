//! A refusal as an HTTP answer. Pure.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use provost_actors::refusal::{Code, Refusal};
use serde_json::Value;

use super::guard::Refused;
use crate::api::Caller;
use crate::tools;

/// The HTTP status of a refusal (RFC 9110 §15): 409 where no other fits, because most other codes say
/// that the state of an object does not allow the call.
pub fn status(code: Code) -> StatusCode {
    match code {
        Code::MissingRequired
        | Code::InvalidArgument
        | Code::UnknownField
        | Code::AmbiguousTarget
        | Code::MixedPagination
        | Code::DependencyCycle
        | Code::TokenLimitExceeded => StatusCode::BAD_REQUEST,
        _ if code.as_str().ends_with("_not_found") => StatusCode::NOT_FOUND,
        Code::NotPermitted => StatusCode::FORBIDDEN,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        Code::Timeout
        | Code::DbLocked
        | Code::DbUnavailable
        | Code::DaemonUnavailable
        | Code::DaemonRestarting
        | Code::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        Code::SpawnFailed | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::CONFLICT,
    }
}

/// A refusal as JSON: the same envelope as in an MCP answer, with an HTTP status.
pub fn as_json(refusal: &Refusal) -> Response {
    enveloped(refusal, refusal.envelope())
}

/// A refusal with another envelope, such as that of the worker API. `Retry-After` has the refusal's
/// own seconds, or 1 where a repeated call may succeed.
pub fn enveloped(refusal: &Refusal, envelope: Value) -> Response {
    let status = status(refusal.code);
    let after = refusal.details.get("retry_after_seconds").and_then(Value::as_u64);
    let after = after.or(refusal.code.retryable().then_some(1));
    let mut response = (status, Json(envelope)).into_response();
    if let Some(after) = after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
    }
    response
}

/// The refusal of a request that has no valid token or cookie.
pub fn without_proof() -> Refusal {
    Refusal::new(Code::NotPermitted, "this needs a token or a login, and the request has none that holds")
        .hint("Run `provost open` for a link; programs send `Authorization: Bearer` with a token of `provost user add`, or with the one in the file http-token of the home.")
}

/// The refusal of a request that the guard rejects.
pub fn refused(why: Refused) -> Refusal {
    let (message, hint) = match why {
        Refused::Host => (
            "the request asks for a name that this daemon does not answer to",
            "Use the address that `provost open` prints, or add the name to http.names in the configuration.",
        ),
        Refused::Origin => (
            "the request comes from a page of another site",
            "Open the page with `provost open`; programs send a token and no Origin.",
        ),
    };
    Refusal::new(Code::NotPermitted, message).hint(hint)
}

/// The refusal of an unknown tool. Its hint names the nearest tool of this caller, if one is near.
pub fn no_tool(name: &str, caller: &Caller) -> Refusal {
    let unknown = tools::unknown(name, caller);
    let hint = unknown.data["hint"].as_str().unwrap_or_default().to_owned();
    Refusal::new(Code::InvalidArgument, unknown.message).hint(hint)
}

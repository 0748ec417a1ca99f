//! How a browser gets in and out: a link that works once becomes a cookie.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;

use super::{HttpState, RequestContext, guard, page};

/// Seconds for which a browser keeps its cookie; the daemon decides how long it is good for.
const KEPT_FOR: u64 = 30 * 24 * 3600;

#[derive(Deserialize)]
pub struct Link {
    #[serde(default)]
    code: String,
    /// Where to go then, on this site.
    #[serde(default)]
    to: String,
}

/// Takes a link's code, sets the cookie, and leads to the page. The answer is a page that leads
/// on, not a redirect: a browser that came from another site sends no strict cookie along with a
/// redirect.
pub async fn enter(
    State(face): State<Arc<HttpState>>,
    method: Method,
    Query(link): Query<Link>,
) -> Response {
    // A program that only looks at a link uses it up otherwise.
    if method != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let Some(names) = &face.names else { return StatusCode::NOT_FOUND.into_response() };
    let cookie = match face.service.log_in(&link.code).await {
        Ok(Some(cookie)) => cookie,
        Ok(None) => {
            let message = "this link was used before, or is too old";
            let refusal = Refusal::new(Code::NotPermitted, message)
                .hint("Run `provost open` for another one.");
            return page::refused(&refusal);
        }
        Err(refusal) => return page::refused(&refusal),
    };
    let secure = if names.scheme == "https" { "; Secure" } else { "" };
    let name = guard::cookie_name(names.port);
    let cookie =
        format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={KEPT_FOR}{secure}");
    let Ok(cookie) = HeaderValue::from_str(&cookie) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut response = page::lead_to(local(&link.to)).into_response();
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
}

/// Logs this browser out.
pub async fn leave(
    State(face): State<Arc<HttpState>>,
    _: RequestContext,
    headers: HeaderMap,
) -> Response {
    let Some(names) = &face.names else { return StatusCode::NOT_FOUND.into_response() };
    let name = guard::cookie_name(names.port);
    if let Some(cookie) = guard::cookie(&headers, &name)
        && let Err(refusal) = face.service.log_out(&cookie).await
    {
        return page::refused(&refusal);
    }
    let mut response = page::logged_out().into_response();
    let gone = format!("{name}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    if let Ok(gone) = HeaderValue::from_str(&gone) {
        response.headers_mut().insert(header::SET_COOKIE, gone);
    }
    response
}

/// A path of this site, whatever was asked for.
pub fn local(path: &str) -> &str {
    let is_local = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    if is_local && !path.chars().any(char::is_control) { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_this_site_only() {
        assert_eq!(local("/attempts/1?turn=2"), "/attempts/1?turn=2");
        for foreign in ["//evil", "/\\evil", "https://evil", "javascript:1", "", "x", "/a\r\nb"] {
            assert_eq!(local(foreign), "/", "{foreign}");
        }
    }
}

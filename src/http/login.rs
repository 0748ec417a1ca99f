//! Login and logout of a browser: a link that works once is exchanged for a cookie.
//!
//! ```text
//!  provost open ▸ /login?code=…&to=PATH ▸ enter: the code is used up, a cookie is set ▸ PATH
//!                                          └ used or too old: a page that says so
//!  POST /logout ▸ leave: the daemon forgets the cookie, and the browser gets the order to drop it
//! ```

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;

use super::{HttpState, RequestContext, guard, page};

/// Seconds for which a browser keeps its cookie. The daemon decides how long the cookie is valid.
const KEPT_FOR: u64 = 30 * 24 * 3600;

/// The query of a login link.
#[derive(Deserialize)]
pub struct Link {
    #[serde(default)]
    code: String,
    /// The path of this site that the browser opens next; empty for the first page.
    #[serde(default)]
    to: String,
}

/// Uses up a link's code, sets the cookie, and opens the page. The answer is a page that forwards,
/// not a redirect: when a link on another site was followed, a browser does not send a
/// `SameSite=Strict` cookie along with a redirect.
pub async fn enter(
    State(face): State<Arc<HttpState>>,
    method: Method,
    Query(link): Query<Link>,
) -> Response {
    // `HEAD` must not use up the code: programs that preview links send it.
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

/// Logs this browser out: its cookie is void in the daemon too. Other browsers stay logged in.
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

/// The given path if it can only lead to this site, else `/`. Browsers treat `//host` and `/\host` as
/// another host, and drop control characters.
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

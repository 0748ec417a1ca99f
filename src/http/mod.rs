//! The HTTP interface: the tools as an API for programs, MCP over HTTP, a stream of changes, and the
//! pages. An adapter like `mcp`: it has no state, rules or actions of its own.
//!
//! ```text
//!  daemon/face     accepts; puts a `Connection` into each request
//!   ▸ enter        guard: host, origin, token or cookie ▸ Standing: the user ▸ RequestContext
//!   ▸ need_proof   401 without a user; reads the body; stops the answer when the user is revoked
//!   ▸ api | mcp | form   ▸ tools::calls ▸ service     every change comes this way
//!   ▸ page | events      ▸ service                    reads only
//! ```
//!
//! `/login` and `/assets` are outside of `need_proof`: they work without a user.

mod api;
mod assets;
mod events;
mod form;
mod guard;
mod login;
mod mcp;
mod openapi;
mod page;
mod problem;
mod standing;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use guard::Names;

use crate::api::users::User;
use crate::api::{Access, Caller, CallerLocation, Idempotent, Origin, Role, Service};
use crate::mcp::Limits;
use crate::tools::{CallLimits, Calls, Left, Permits, Rates, table};
use standing::Standing;

/// Longest body of a request, in bytes.
const BODY_MAX: usize = 4 * 1024 * 1024;
/// How long a client may take to send the body.
const BODY_WITHIN: Duration = Duration::from_secs(15);

/// Headers with the caller's rate limit: calls a minute, calls left now, and the second of Unix time
/// at which the limit is whole again (`tools::Left`).
const RATE: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// What a page may load, and who may frame it (CSP level 3): only resources of this origin, no inline
/// script or style, no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What all requests share: there is one for each daemon.
pub struct HttpState {
    service: Arc<dyn Service>,
    rates: Arc<Rates>,
    seats: Permits,
    limits: Limits,
    /// Host names of the TCP listener. `None`: only the Unix socket is served, and cookies do not count.
    names: Option<Names>,
    feed: events::Feed,
    ending: CancellationToken,
}

impl HttpState {
    /// Starts the feed of changes, which runs until `ending` is cancelled. All HTTP requests together
    /// share one set of permits, with the limits that one socket connection has.
    pub fn new(
        service: Arc<dyn Service>,
        limits: Limits,
        names: Option<Names>,
        ending: CancellationToken,
    ) -> Self {
        let rates = Arc::clone(&limits.rates);
        let feed = events::Feed::start(Arc::clone(&service), ending.clone());
        Self {
            service,
            rates,
            seats: Permits::new(CallLimits::default()),
            limits,
            names,
            feed,
            ending,
        }
    }
}

/// The connection that a request came by.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Where the process at the other end runs, if it is a process of this machine. The first use
    /// looks it up, which blocks.
    place: Arc<LazyLock<CallerLocation, Lookup>>,
    is_unix: bool,
    /// The peer's address, or `socket, process PID`, for the audit log.
    from: String,
}

type Lookup = Box<dyn FnOnce() -> CallerLocation + Send>;

impl Connection {
    /// `place` runs at most once, and only after a request on this connection proved a user. The daemon
    /// relies on that order: the call tells it that the connection no longer counts as unauthenticated.
    pub fn new(
        is_unix: bool,
        from: String,
        place: impl FnOnce() -> CallerLocation + Send + 'static,
    ) -> Self {
        let place: Lookup = Box::new(place);
        Self { place: Arc::new(LazyLock::new(place)), is_unix, from }
    }
}

/// Who makes a request, and the tools as that caller may use them. Handlers take it as an argument;
/// the extraction fails with 403 where the guard found no user.
#[derive(Clone)]
pub struct RequestContext {
    pub service: Arc<dyn Service>,
    pub caller: Caller,
    /// The number of the newest change when the request came; `None` until the feed has read one. A
    /// page names it, so that its event stream continues from the state that the page shows.
    pub as_of: Option<u64>,
    calls: Arc<Calls>,
    standing: Standing,
}

impl RequestContext {
    /// Calls a tool by its name, with the checks of an MCP call; `invalid_argument` for an unknown name.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Idempotent<Value>, Refusal> {
        let found = table::find(tool).ok_or_else(|| problem::no_tool(tool, &self.caller))?;
        self.calls.call(found, arguments, None).await
    }
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let desk = parts.extensions.get::<Self>().cloned();
        desk.ok_or_else(|| problem::as_json(&problem::without_proof()))
    }
}

/// All routes. Whoever serves them must add a [`Connection`] to each request as an extension; a
/// request without one is refused as an internal error.
pub fn router(face: Arc<HttpState>) -> Router {
    let inside = Router::new()
        .route("/api/v1/openapi.json", get(openapi::document))
        .route("/api/v1/{tool}", post(api::call))
        .route("/mcp", axum::routing::any(mcp::serve))
        .route("/events", get(events::stream))
        .route("/do/{tool}", post(form::submit))
        .route("/logout", post(login::leave))
        .merge(page::routes())
        .layer(from_fn(need_proof));
    Router::new()
        .route("/login", get(login::enter))
        .route("/assets/{file}", get(assets::serve))
        .merge(inside)
        .fallback(page::not_found)
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(&face), enter))
        .with_state(face)
}

/// Lets a request in or refuses it, turns a refusal into JSON or a page, and adds the headers that
/// every answer has.
async fn enter(State(face): State<Arc<HttpState>>, mut request: Request, next: Next) -> Response {
    let wants_page = wants_page(request.headers());
    let is_script = request.headers().contains_key("hx-request");
    let mut response = match let_in(&face, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(refusal) if wants_page => page::refused(&refusal),
        Err(refusal) => problem::as_json(&refusal),
    };
    response = page::render_refusal(response, is_script);
    set_page_headers(response.headers_mut());
    response
}

/// Adds a [`RequestContext`] to a request that has a user. A request without a user passes too, but
/// without a context: the routes below `need_proof` refuse it later.
async fn let_in(face: &HttpState, request: &mut Request) -> Result<(), Refusal> {
    let Some(connection) = request.extensions().get::<Connection>().cloned() else {
        return Err(Refusal::internal("a request without its connection"));
    };
    let names = face.names.as_ref().filter(|_| !connection.is_unix);
    let authority = request.uri().authority().map(Authority::as_str);
    let proof = guard::judge(request.method(), request.headers(), authority, names);
    // Only the daemon's own user can open the socket's file, so a request on it needs no token.
    let proof = proof.map_err(problem::refused)?;
    let owner = User { name: crate::api::users::OWNER.to_owned(), access: Access::Admin };
    let owner = (proof.is_none() && connection.is_unix).then_some(owner);
    let Some(standing) = Standing::of(&face.service, proof, owner).await? else { return Ok(()) };
    let place = Arc::clone(&connection.place);
    let place = tokio::task::spawn_blocking(move || **place).await;
    let place = place.map_err(|error| Refusal::internal(error.to_string()))?;
    request.extensions_mut().insert(face.desk(standing, place, connection.from)?);
    Ok(())
}

impl HttpState {
    /// The context of a user; `not_permitted` where the process at the other end belongs to an attempt:
    /// an agent must not act with a person's token.
    fn desk(
        &self,
        standing: Standing,
        place: CallerLocation,
        from: String,
    ) -> Result<RequestContext, Refusal> {
        let User { name, access } = standing.user.clone();
        if place.is_inside() {
            let message = "the HTTP face is for people and programs outside of attempts";
            return Err(Refusal::new(Code::NotPermitted, message)
                .hint("Inside an attempt, call the tools of `provost mcp`."));
        }
        let caller = Caller {
            role: Role::All,
            attempt: None,
            place,
            is_person: access == Access::Admin,
            agent: format!("user {name}"),
            access,
            cwd: None,
            origin: Origin { user: Some(name), from, host: None },
        };
        let service = Arc::clone(&self.service);
        let (rates, seats) = (Arc::clone(&self.rates), self.seats.clone());
        let calls = Calls::new(Arc::clone(&service), caller.clone(), rates, seats);
        let as_of = self.feed.newest();
        Ok(RequestContext { service, caller, as_of, calls: Arc::new(calls), standing })
    }
}

/// Refuses with 401 a request without a user, and one whose user is revoked before the answer is
/// ready. Reads the body only after a user is proved, so that others can't make it use memory.
async fn need_proof(request: Request, next: Next) -> Response {
    let wants_page = wants_page(request.headers());
    if let Some(desk) = request.extensions().get::<RequestContext>().cloned() {
        let (parts, body) = request.into_parts();
        let body = match tokio::time::timeout(BODY_WITHIN, to_bytes(body, BODY_MAX)).await {
            Ok(Ok(body)) => Body::from(body),
            Ok(Err(_)) => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
            Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
        };
        tokio::select! {
            biased;
            mut response = next.run(Request::from_parts(parts, body)) => {
                if let Some(Left { limit, remaining, reset }) = desk.calls.left() {
                    for (name, value) in RATE.into_iter().zip([limit, remaining, reset]) {
                        response.headers_mut().insert(name, value.into());
                    }
                }
                return response;
            }
            () = desk.standing.lost() => {}
        }
    }
    let refusal = problem::without_proof();
    let mut response =
        if wants_page { page::refused(&refusal) } else { problem::as_json(&refusal) };
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Whether a browser shows the answer: it asked for HTML, or htmx made the request.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html")) || headers.contains_key("hx-request")
}

/// The security headers of every answer. A header that a handler has set stays (`or_insert`).
fn set_page_headers(headers: &mut HeaderMap) {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer`, a browser sends `Origin: null` for forms too, and the guard would refuse them.
        (header::REFERRER_POLICY, "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

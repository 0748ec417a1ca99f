//! The HTTP face: the tools for programs, MCP for clients that speak it over HTTP, what changes as
//! a stream, and the page. An adapter like `mcp`: no state, rule or verb of its own.
//!
//! ```text
//!   request ▸ guard ▸ user ▸ Desk ▸ api | mcp | events | form | page ▸ tools::calls ▸ service
//! ```

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
use crate::api::{Access, Caller, CallerLocation, Once, Origin, Role, Service};
use crate::mcp::Limits;
use crate::tools::{CallLimits, Calls, Left, Permits, Rates, table};
use standing::Standing;

/// Longest body of a request, in bytes.
const BODY_MAX: usize = 4 * 1024 * 1024;
/// How long a client may take for it.
const BODY_WITHIN: Duration = Duration::from_secs(15);

/// What tells a caller how often it may still call.
const RATE: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// What a page may load, and who may frame it (CSP level 3): everything from here, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What all requests share.
pub struct HttpState {
    service: Arc<dyn Service>,
    rates: Arc<Rates>,
    seats: Permits,
    limits: Limits,
    /// `None`: the Unix socket alone.
    names: Option<Names>,
    feed: events::Feed,
    ending: CancellationToken,
}

impl HttpState {
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
    /// Where its process is, if that is of this machine. It is looked up, which blocks, once a user
    /// is proved.
    place: Arc<LazyLock<CallerLocation, Lookup>>,
    is_unix: bool,
    /// Its address, for the audit log.
    from: String,
}

type Lookup = Box<dyn FnOnce() -> CallerLocation + Send>;

impl Connection {
    /// `place` is asked for once, if at all.
    pub fn new(
        is_unix: bool,
        from: String,
        place: impl FnOnce() -> CallerLocation + Send + 'static,
    ) -> Self {
        let place: Lookup = Box::new(place);
        Self { place: Arc::new(LazyLock::new(place)), is_unix, from }
    }
}

/// Who asks, let in by the guard.
#[derive(Clone)]
pub struct RequestContext {
    pub service: Arc<dyn Service>,
    pub caller: Caller,
    /// The newest change when the request came, if any was read yet.
    pub as_of: Option<u64>,
    calls: Arc<Calls>,
    standing: Standing,
}

impl RequestContext {
    /// Calls a tool by its name, as MCP does.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Once<Value>, Refusal> {
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

/// Everything that is served. Each request carries its [`Connection`] as an extension.
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

/// Judges a request, finds its user, and dresses the answer.
async fn enter(State(face): State<Arc<HttpState>>, mut request: Request, next: Next) -> Response {
    let wants_page = wants_page(request.headers());
    let is_script = request.headers().contains_key("hx-request");
    let mut response = match let_in(&face, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(refusal) if wants_page => page::refused(&refusal),
        Err(refusal) => problem::as_json(&refusal),
    };
    response = page::told(response, is_script);
    set_page_headers(response.headers_mut());
    response
}

async fn let_in(face: &HttpState, request: &mut Request) -> Result<(), Refusal> {
    let Some(connection) = request.extensions().get::<Connection>().cloned() else {
        return Err(Refusal::internal("a request without its connection"));
    };
    let names = face.names.as_ref().filter(|_| !connection.is_unix);
    let authority = request.uri().authority().map(Authority::as_str);
    let proof = guard::judge(request.method(), request.headers(), authority, names);
    // The socket's file lets in its owner alone.
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

/// Refuses what needs a user and has none, or has none any more before it is answered; reads the
/// body of what has one.
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

/// Whether the answer is for a person's eyes.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html")) || headers.contains_key("hx-request")
}

/// What every answer says to a browser.
fn set_page_headers(headers: &mut HeaderMap) {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // A browser tells a page without a referrer no origin either, and a form needs its own.
        (header::REFERRER_POLICY, "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

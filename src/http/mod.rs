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

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use guard::Names;

use crate::api::users::User;
use crate::api::{Access, Caller, Once, Origin, Place, Role, Service};
use crate::mcp::Limits;
use crate::tools::{Calls, Rates, Room, Seats, table};
use guard::Proof;

/// Longest body of a request, in bytes.
const BODY_MAX: usize = 4 * 1024 * 1024;

/// What a page may load, and who may frame it (CSP level 3): everything from here, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What all requests share.
pub struct Face {
    service: Arc<dyn Service>,
    rates: Arc<Rates>,
    seats: Seats,
    limits: Limits,
    /// `None`: the Unix socket alone.
    names: Option<Names>,
    feed: events::Feed,
    ending: CancellationToken,
}

impl Face {
    pub fn new(
        service: Arc<dyn Service>,
        limits: Limits,
        names: Option<Names>,
        ending: CancellationToken,
    ) -> Self {
        let rates = Arc::clone(&limits.rates);
        let feed = events::Feed::start(Arc::clone(&service), ending.clone());
        Self { service, rates, seats: Seats::new(Room::default()), limits, names, feed, ending }
    }
}

/// The connection that a request came by.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Where its process is, if that is of this machine.
    pub place: Place,
    pub is_unix: bool,
    /// Its address, for the audit log.
    pub from: String,
}

/// Who asks, let in by the guard.
#[derive(Clone)]
pub struct Desk {
    pub service: Arc<dyn Service>,
    pub caller: Caller,
    /// The newest change when the request came, if any was read yet.
    pub as_of: Option<u64>,
    calls: Arc<Calls>,
}

impl Desk {
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

impl<S: Sync> FromRequestParts<S> for Desk {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let desk = parts.extensions.get::<Self>().cloned();
        desk.ok_or_else(|| problem::as_json(&problem::without_proof()))
    }
}

/// Everything that is served. Each request carries its [`Connection`] as an extension.
pub fn router(face: Arc<Face>) -> Router {
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
        .layer(axum::extract::DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn_with_state(Arc::clone(&face), enter))
        .with_state(face)
}

/// Judges a request, finds its user, and dresses the answer.
async fn enter(State(face): State<Arc<Face>>, mut request: Request, next: Next) -> Response {
    let wants_page = wants_page(request.headers());
    let is_script = request.headers().contains_key("hx-request");
    let mut response = match let_in(&face, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(refusal) if wants_page => page::refused(&refusal),
        Err(refusal) => problem::as_json(&refusal),
    };
    response = page::told(response, is_script);
    dress(response.headers_mut());
    response
}

async fn let_in(face: &Face, request: &mut Request) -> Result<(), Refusal> {
    let Some(connection) = request.extensions().get::<Connection>().cloned() else {
        return Err(Refusal::internal("a request without its connection"));
    };
    let names = face.names.as_ref().filter(|_| !connection.is_unix);
    let authority = request.uri().authority().map(Authority::as_str);
    let proof = guard::judge(request.method(), request.headers(), authority, names);
    let user = match proof.map_err(problem::refused)? {
        // The socket's file lets in its owner alone.
        None if connection.is_unix => {
            Some(User { name: crate::api::users::OWNER.to_owned(), access: Access::Admin })
        }
        None => None,
        Some(Proof::Token(token)) => face.service.user_of_token(&token).await?,
        Some(Proof::Cookie(cookie)) => face.service.user_of_cookie(&cookie).await?,
    };
    if let Some(user) = user {
        request.extensions_mut().insert(face.desk(user, connection)?);
    }
    Ok(())
}

impl Face {
    fn desk(&self, user: User, connection: Connection) -> Result<Desk, Refusal> {
        let User { name, access } = user;
        if connection.place.is_inside() {
            let message = "the HTTP face is for people and programs outside of attempts";
            return Err(Refusal::new(Code::NotPermitted, message)
                .hint("Inside an attempt, call the tools of `provost mcp`."));
        }
        let caller = Caller {
            role: Role::All,
            attempt: None,
            place: connection.place,
            is_person: access == Access::Admin,
            agent: format!("user {name}"),
            access,
            cwd: None,
            origin: Origin { user: Some(name), from: connection.from, host: None },
        };
        let service = Arc::clone(&self.service);
        let (rates, seats) = (Arc::clone(&self.rates), self.seats.clone());
        let calls = Calls::new(Arc::clone(&service), caller.clone(), rates, seats);
        let as_of = self.feed.newest();
        Ok(Desk { service, caller, as_of, calls: Arc::new(calls) })
    }
}

/// Refuses what needs a user and has none.
async fn need_proof(request: Request, next: Next) -> Response {
    if request.extensions().get::<Desk>().is_some() {
        return next.run(request).await;
    }
    let refusal = problem::without_proof();
    let mut response = if wants_page(request.headers()) {
        page::refused(&refusal)
    } else {
        problem::as_json(&refusal)
    };
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
fn dress(headers: &mut HeaderMap) {
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

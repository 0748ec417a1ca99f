//! MCP over streamable HTTP, both generations of the protocol, without sessions: no request depends
//! on an earlier one, so that a client does not notice a restart of the daemon.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::{BODY_MAX, HttpState, RequestContext};
use crate::mcp::Server;

/// Handles `/mcp`: each request gets a server of its own, for the caller that the guard found.
pub async fn serve(
    State(face): State<Arc<HttpState>>,
    desk: RequestContext,
    request: Request,
) -> Response {
    // The guard has judged Host and Origin already.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_MAX)
        .with_cancellation_token(face.ending.clone())
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let (calls, limits, ending) =
        (Arc::clone(&desk.calls), face.limits.clone(), face.ending.clone());
    let server = move || Ok(Server::of_request(Arc::clone(&calls), &limits, ending.clone()));
    let service =
        StreamableHttpService::new(server, Arc::new(NeverSessionManager::default()), config);
    let response = service.handle(request).await;
    response.map(Body::new).into_response()
}

//! The HTTP server: one port of the loopback interface for all dialects.

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::conversation::{Frame, Plan, Refusal, Reply};
use crate::{dialect, scenario};

/// A server that answers until it is dropped.
pub struct ModelServer {
    address: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

/// What its handlers share.
#[derive(Default)]
struct Shared {
    replies: AtomicU64,
    log: Option<tokio::sync::Mutex<tokio::fs::File>>,
}

impl ModelServer {
    /// Begins to listen on a port of the loopback interface; 0 is any. With a
    /// `log`, each request and what was made of it is a JSON line there.
    pub async fn start(port: u16, log: Option<PathBuf>) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, port), log).await
    }

    /// The same at another address of this machine.
    pub async fn start_at(at: (Ipv4Addr, u16), log: Option<PathBuf>) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let log = match log {
            Some(path) => Some(tokio::fs::File::create(path).await?.into()),
            None => None,
        };
        let shared = Arc::new(Shared { log, ..Shared::default() });
        let router = Router::new()
            .fallback(answer)
            // A conversation has megabytes.
            .layer(DefaultBodyLimit::disable())
            .with_state(shared);
        let task = tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self { address, task })
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for as long as it runs.
    pub async fn wait(mut self) -> io::Result<()> {
        (&mut self.task).await?
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(shared): State<Arc<Shared>>, uri: Uri, body: Bytes) -> Response {
    let path = uri.path();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(dialect) = dialect::of(path) else {
        shared.note(&json!({"path": path})).await;
        return match dialect::aside(path) {
            Some(value) => json_response(StatusCode::OK, &value),
            None => json_response(StatusCode::NOT_FOUND, &json!({"error": "no such path"})),
        };
    };
    let request = dialect.read(path, &body);
    let plan = scenario::plan(&request);
    shared.note(&json!({"path": path, "body": body, "plan": format!("{plan:?}")})).await;
    match plan {
        Plan::Refuse(refusal) => {
            let (status, value) = dialect.refuse(&refusal);
            (limits(&refusal), json_response(status, &value)).into_response()
        }
        Plan::Say(parts) => {
            let number = shared.replies.fetch_add(1, Ordering::Relaxed) + 1;
            let reply = Reply { number, model: request.model, parts };
            if request.streams {
                Sse::new(events(dialect.stream(&reply))).into_response()
            } else {
                json_response(StatusCode::OK, &dialect.whole(&reply))
            }
        }
    }
}

impl Shared {
    async fn note(&self, line: &Value) {
        if let Some(log) = &self.log {
            // Nobody is helped by a refused request when the log can't be written.
            let _ = log.lock().await.write_all(format!("{line}\n").as_bytes()).await;
        }
    }
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn events(frames: Vec<Frame>) -> impl Stream<Item = Result<Event, io::Error>> {
    stream::iter(frames).then(|frame| async move {
        tokio::time::sleep(frame.pause).await;
        let event = Event::default().data(frame.data);
        Ok(match frame.event {
            Some(name) => event.event(name),
            None => event,
        })
    })
}

/// The headers by which services tell when to try again: that of HTTP, OpenAI's
/// and Anthropic's.
fn limits(refusal: &Refusal) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(wait) = refusal.retry_after {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let at = HeaderValue::from((now + wait).as_secs());
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        headers.insert("anthropic-ratelimit-unified-reset", at);
        if let Ok(wait) = HeaderValue::try_from(format!("{}s", wait.as_secs())) {
            headers.insert("x-ratelimit-reset-requests", wait);
        }
    }
    headers
}

//! Changes as server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>). An event says which object
//! changed; its id is the number of that object's last change. A reader that reconnects with the last
//! id it saw gets every object that has changed since, also after a restart of the daemon, because
//! the numbers are in the store.
//!
//! ```text
//!  commit ▸ feed(): reads the changes once ▸ Recent (the newest 4096) ▸ newest (watch)
//!                                                 │                        │ wakes
//!                                                 └──────▸ Reader::next ◂──┘ one for each stream
//!  a reader whose last id is older than `Recent` reads the store itself
//! ```

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use provost_actors::blocking::lock;
use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::{HttpState, RequestContext, problem};
use crate::api::Service;
use crate::api::users::Changed;

/// Streams at once; more are refused with 503. A browser has one for each visible window.
const STREAMS: usize = 256;
/// Changes that the feed keeps in memory for readers.
const KEPT: usize = 4096;
/// Most changes of one read from the store, or of one batch to a stream.
const BATCH: usize = 256;
/// Changes within this time are one batch: a busy agent changes its rows many times a second.
const TOGETHER: Duration = Duration::from_millis(50);
/// After so long without an event, a stream sends a comment to show that it is alive. The feed waits
/// as long after a failed read.
const BEAT: Duration = Duration::from_secs(15);

/// The newest changes, read once for all streams.
#[derive(Clone)]
pub struct Feed {
    recent: Arc<Mutex<Recent>>,
    /// The number of the newest change that was read.
    newest: watch::Receiver<u64>,
    streams: Arc<Semaphore>,
}

struct Recent {
    /// Every change after this number is in `changes`.
    since: u64,
    changes: VecDeque<Changed>,
}

impl Default for Recent {
    /// Before the feed's first read: `after` returns `None` for every number, so readers use the store.
    fn default() -> Self {
        Self { since: u64::MAX, changes: VecDeque::new() }
    }
}

impl Recent {
    fn add(&mut self, changes: Vec<Changed>) {
        self.changes.extend(changes);
        while self.changes.len() > KEPT {
            self.since = self.changes.pop_front().map_or(self.since, |oldest| oldest.number);
        }
    }

    /// At most `BATCH` changes after a number. `None`: some of them are no longer in memory, or not
    /// read yet.
    fn after(&self, number: u64) -> Option<Vec<Changed>> {
        if number < self.since {
            return None;
        }
        let from = self.changes.partition_point(|change| change.number <= number);
        Some(self.changes.range(from..).take(BATCH).cloned().collect())
    }
}

impl Feed {
    /// Starts the task that reads changes, which runs until `ending` is cancelled.
    pub fn start(service: Arc<dyn Service>, ending: CancellationToken) -> Self {
        let recent = Arc::new(Mutex::new(Recent::default()));
        let (read, newest) = watch::channel(0);
        let feeding = feed(service, Arc::clone(&recent), read);
        tokio::spawn(async move { ending.run_until_cancelled(feeding).await });
        Self { recent, newest, streams: Arc::new(Semaphore::new(STREAMS)) }
    }

    /// The number of the newest change that was read, if any was.
    pub fn newest(&self) -> Option<u64> {
        let newest = *self.newest.borrow();
        (newest > 0).then_some(newest)
    }
}

/// Reads each change once, and announces its number. It waits for commits only after an empty read:
/// a commit between a read and the wait is marked on the receiver, so it is not missed.
async fn feed(service: Arc<dyn Service>, recent: Arc<Mutex<Recent>>, read: watch::Sender<u64>) {
    let mut commits = service.commits();
    let mut last = None;
    loop {
        let found = match last {
            None => service.newest_change().await.map(|newest| {
                *lock(&recent) = Recent { since: newest, changes: VecDeque::new() };
                last = Some(newest);
                read.send_replace(newest);
                Vec::new()
            }),
            Some(last) => service.changes_after(last, BATCH).await,
        };
        match found {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => {
                last = changes.last().map(|change| change.number);
                lock(&recent).add(changes);
                read.send_replace(last.unwrap_or_default());
                continue;
            }
            Err(refusal) => {
                tracing::warn!(refusal = refusal.message, "changes can't be read");
                tokio::time::sleep(BEAT).await;
                continue;
            }
        }
        if commits.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

/// The query of `/events`.
#[derive(Deserialize)]
pub struct Since {
    /// The last id that the page knows. `Last-Event-ID`, which a browser sends when it reconnects,
    /// takes precedence.
    after: Option<u64>,
}

/// One stream, and the number of the last change that it has sent.
struct Reader {
    desk: RequestContext,
    feed: Feed,
    last: u64,
    ending: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

/// Handles `GET /events`. Without a last id the stream begins at the newest change. It ends with the
/// daemon, with the user's token or login, or when the store can't be read.
pub async fn stream(
    State(face): State<Arc<HttpState>>,
    desk: RequestContext,
    headers: HeaderMap,
    Query(since): Query<Since>,
) -> Response {
    let Ok(permit) = Arc::clone(&face.feed.streams).try_acquire_owned() else {
        let message = format!("{STREAMS} event streams are open, and there are no more");
        let refusal = Refusal::new(Code::RateLimited, message)
            .hint("Close windows that are not needed, and try again.");
        let mut response = problem::as_json(&refusal);
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    };
    let given = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let last = match given.or(since.after) {
        Some(last) => last,
        None => match face.service.newest_change().await {
            Ok(newest) => newest,
            Err(refusal) => return problem::as_json(&refusal),
        },
    };
    let (ending, lost) = (face.ending.clone(), desk.standing.clone().lost());
    let reader = Reader { desk, feed: face.feed.clone(), last, ending, _permit: permit };
    // The first event carries the starting id: a browser whose connection breaks before the second
    // event then reconnects from this id.
    let begin = Event::default().id(last.to_string()).event("begin").data("{}");
    let first = stream::iter([Ok::<_, Infallible>(begin)]);
    let rest = stream::unfold(reader, |mut reader| async move {
        let batch = reader.next().await?;
        Some((stream::iter(batch.into_iter().map(|change| Ok(event(&change)))), reader))
    });
    let events = first.chain(rest.flatten()).take_until(Box::pin(lost));
    let beat = KeepAlive::new().interval(BEAT);
    let mut response = Sse::new(events).keep_alive(beat).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Reader {
    /// Waits for the next changes; `None`: the daemon ends, or the store failed.
    async fn next(&mut self) -> Option<Vec<Changed>> {
        loop {
            let newest = *self.feed.newest.borrow_and_update();
            let kept = lock(&self.feed.recent).after(self.last);
            let changes = match kept {
                Some(changes) => changes,
                // The reader is behind what the feed keeps.
                None => self.desk.service.changes_after(self.last, BATCH).await.ok()?,
            };
            if let Some(change) = changes.last() {
                self.last = change.number;
                return Some(changes);
            }
            // The last id is larger than any that this home has given out: the page is one of another
            // home, or the home was restored from a backup.
            if newest > 0 && self.last > newest && self.is_beyond().await {
                self.last = newest;
            }
            tokio::select! {
                () = self.ending.cancelled() => return None,
                changed = self.feed.newest.changed() => changed.ok()?,
            }
        }
    }

    /// Asks the store, because the feed's newest number may be behind it.
    async fn is_beyond(&self) -> bool {
        self.desk.service.newest_change().await.is_ok_and(|newest| newest < self.last)
    }
}

fn event(change: &Changed) -> Event {
    let data = json!({"topic": change.topic, "id": change.id});
    Event::default().id(change.number.to_string()).data(data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u64) -> Changed {
        Changed { number, topic: "task".to_owned(), id: number.to_string() }
    }

    fn numbers(changes: Option<Vec<Changed>>) -> Option<Vec<u64>> {
        changes.map(|changes| changes.iter().map(|change| change.number).collect())
    }

    #[test]
    fn a_reader_gets_what_came_after_or_learns_that_it_is_too_far_behind() {
        let mut recent = Recent { since: 5, changes: VecDeque::new() };
        assert_eq!(numbers(recent.after(5)), Some(vec![]));
        assert_eq!(numbers(recent.after(4)), None);
        recent.add(vec![change(7), change(9)]);
        assert_eq!(numbers(recent.after(5)), Some(vec![7, 9]));
        assert_eq!(numbers(recent.after(7)), Some(vec![9]));
        assert_eq!(numbers(recent.after(8)), Some(vec![9]));
        assert_eq!(numbers(recent.after(100)), Some(vec![]));
    }

    #[test]
    fn the_feed_forgets_the_oldest() {
        assert_eq!(numbers(Recent::default().after(0)), None);
        let mut recent = Recent { since: 0, changes: VecDeque::new() };
        let many = KEPT as u64 + 10;
        recent.add((1..=many).map(change).collect());
        assert_eq!(recent.changes.len(), KEPT);
        assert_eq!(numbers(recent.after(9)), None);
        assert_eq!(numbers(recent.after(10)).unwrap().first(), Some(&11));
        assert_eq!(numbers(recent.after(many - 1)), Some(vec![many]));
    }
}

//! What one connection keeps in memory for its peer: the requests without an answer, and the answers that
//! the peer has not read. It counts bytes, and makes callers wait that would exceed the limit. It does no
//! I/O.
//!
//! ```text
//!   admit(line) ─▶ reserve(largest answer) ─▶ answered(actual bytes) ─▶ written
//!   requests ───────────────────────────────┘
//!                  answers ───────────────────────────────────────────┘
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use provost_actors::blocking::lock;
use rmcp::model::RequestId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Most bytes of requests, and most bytes of answers, that a connection may hold: 32 MiB each.
const LIMIT: usize = 32 * 1024 * 1024;

/// What a request costs in addition to its line: its task, its context, a small answer. It bounds the
/// requests in flight of one connection to 4,096.
const REQUEST_COST: usize = 8 * 1024;

/// Most bytes that the large answers of all connections may hold together: 256 MiB.
const SHARED_LIMIT: usize = 256 * 1024 * 1024;

/// The unit of the shared limit, in bytes: a semaphore counts in 32 bits.
const UNIT: usize = 1024;

/// The limit for large answers that all connections share. A clone is the same limit.
#[derive(Clone)]
pub struct Shared(Arc<Semaphore>);

impl Default for Shared {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SHARED_LIMIT / UNIT)))
    }
}

/// The bytes that one connection holds: counted per request, from `admit` until the answer is written.
pub struct Backlog {
    held: Mutex<Held>,
    freed: Notify,
    shared: Shared,
}

/// What is held now. The sums are those of the entries, plus the answers that were taken out of them.
#[derive(Default)]
struct Held {
    entries: HashMap<RequestId, BacklogEntry>,
    /// Bytes of the requests without an answer.
    requests: usize,
    /// Bytes reserved for answers, and bytes of answers that wait for the peer.
    answers: usize,
}

/// One request without an answer: its own bytes, and what is reserved for its answer.
#[derive(Default)]
struct BacklogEntry {
    request: usize,
    reserved: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// An answer on its way to the peer. Its bytes are given back when it is dropped.
pub struct Unread {
    backlog: Arc<Backlog>,
    bytes: usize,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Backlog {
    /// An empty backlog. `shared` is the daemon's only one.
    pub fn new(shared: Shared) -> Self {
        Self { held: Mutex::default(), freed: Notify::new(), shared }
    }

    /// Waits until the connection may read another request: it has less than the limit of requests and of
    /// unread answers.
    pub async fn room_for_a_request(&self) {
        self.until(|held| held.requests < LIMIT && held.answers < LIMIT).await;
    }

    /// Counts a request in. `answer_bytes` is the expected size of its answer, if that is not small.
    /// `false`: a request with this id is still unanswered.
    pub fn admit(&self, id: &RequestId, line_bytes: usize, answer_bytes: usize) -> bool {
        let mut held = lock(&self.held);
        if held.entries.contains_key(id) {
            return false;
        }
        let request = line_bytes + answer_bytes + REQUEST_COST;
        held.requests += request;
        held.entries.insert(id.clone(), BacklogEntry { request, ..BacklogEntry::default() });
        true
    }

    /// Waits until an answer of up to `bytes` may be made, and reserves room for it. An answer larger
    /// than the limit waits until it is the connection's only one.
    pub async fn reserve(&self, id: &RequestId, bytes: usize) {
        let units = u32::try_from(bytes.min(SHARED_LIMIT) / UNIT).unwrap_or(u32::MAX);
        let reserved = |held: &mut Held| {
            if held.answers > 0 && held.answers + bytes > LIMIT {
                return false;
            }
            if let Some(entry) = held.entries.get_mut(id) {
                entry.reserved += bytes;
                held.answers += bytes;
            }
            true
        };
        // The connection's own limit comes first: a connection must not hold a part of the shared limit
        // while it waits for itself. The semaphore is never closed.
        self.until(reserved).await;
        let permit = Arc::clone(&self.shared.0).acquire_many_owned(units).await.ok();
        if let Some(entry) = lock(&self.held).entries.get_mut(id) {
            entry.permit = permit;
        }
    }

    /// Replaces a request's bytes by those of its answer, which now waits for the peer. `None`: no
    /// request with this id waits for an answer.
    pub fn answered(self: &Arc<Self>, id: &RequestId, bytes: usize) -> Option<Unread> {
        let entry = self.remove(id, bytes)?;
        Some(Unread { backlog: Arc::clone(self), bytes, _permit: entry.permit })
    }

    /// Removes a request that will get no answer.
    pub fn forget(&self, id: &RequestId) {
        self.remove(id, 0);
    }

    /// Removes a request, with `answer` bytes in place of what was reserved for its answer.
    fn remove(&self, id: &RequestId, answer: usize) -> Option<BacklogEntry> {
        let mut held = lock(&self.held);
        let entry = held.entries.remove(id)?;
        held.requests -= entry.request;
        held.answers = held.answers - entry.reserved + answer;
        drop(held);
        self.freed.notify_waiters();
        Some(entry)
    }

    /// Waits until `ready` returns true; it is called again whenever something was freed.
    async fn until(&self, mut ready: impl FnMut(&mut Held) -> bool) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Registered before the check, so that no wake-up between check and wait is lost.
            freed.as_mut().enable();
            if ready(&mut lock(&self.held)) {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        lock(&self.backlog.held).answers -= self.bytes;
        self.backlog.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1024 * 1024;

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    fn backlog() -> Arc<Backlog> {
        Arc::new(Backlog::new(Shared::default()))
    }

    #[test]
    fn an_id_is_taken_until_its_request_is_answered() {
        let backlog = backlog();
        assert!(backlog.admit(&id(1), 10, 0));
        assert!(!backlog.admit(&id(1), 10, 0));
        assert!(backlog.answered(&id(1), 10).is_some());
        assert!(backlog.answered(&id(1), 10).is_none());
        assert!(backlog.admit(&id(1), 10, 0));
    }

    #[test]
    fn answers_that_the_peer_does_not_read_hold_back_requests_and_other_answers() {
        let backlog = backlog();
        for number in 0..8 {
            assert!(backlog.admit(&id(number), 100, 0));
            assert!(backlog.reserve(&id(number), 4 * MIB).now_or_never().is_some());
        }
        assert!(backlog.admit(&id(8), 100, 0));
        assert!(backlog.reserve(&id(8), 4 * MIB).now_or_never().is_none());
        assert!(backlog.room_for_a_request().now_or_never().is_none());
        let unread = backlog.answered(&id(0), 4 * MIB);
        assert!(backlog.reserve(&id(8), 4 * MIB).now_or_never().is_none());
        drop(unread);
        assert!(backlog.reserve(&id(8), 4 * MIB).now_or_never().is_some());
    }

    #[test]
    fn an_answer_over_the_limit_gets_through_alone() {
        let backlog = backlog();
        assert!(backlog.admit(&id(1), 100, 0));
        assert!(backlog.reserve(&id(1), 10 * LIMIT).now_or_never().is_some());
    }

    #[test]
    fn connections_share_the_limit_of_all() {
        let shared = Shared::default();
        let all: Vec<Backlog> = (0..64).map(|_| Backlog::new(shared.clone())).collect();
        let mut room = 0;
        for backlog in &all {
            assert!(backlog.admit(&id(1), 100, 0));
            room += usize::from(backlog.reserve(&id(1), 8 * MIB).now_or_never().is_some());
        }
        assert_eq!(room, SHARED_LIMIT / (8 * MIB));
        all[0].forget(&id(1));
        assert!(all[63].reserve(&id(1), 8 * MIB).now_or_never().is_some());
    }

    proptest! {
        #[test]
        fn the_counts_are_those_of_what_is_held(
            steps in prop::collection::vec((0..6_i64, 0..4_u8, 0..3 * MIB), 0..200),
        ) {
            let backlog = backlog();
            let mut unread = Vec::new();
            for (number, step, bytes) in steps {
                match step {
                    0 => { backlog.admit(&id(number), bytes, 0); }
                    1 => { let _ = backlog.reserve(&id(number), bytes).now_or_never(); }
                    2 => unread.extend(backlog.answered(&id(number), bytes)),
                    _ => backlog.forget(&id(number)),
                }
                let held = lock(&backlog.held);
                let requests: usize = held.entries.values().map(|entry| entry.request).sum();
                let reserved: usize = held.entries.values().map(|entry| entry.reserved).sum();
                let waiting: usize = unread.iter().map(|it: &Unread| it.bytes).sum();
                prop_assert_eq!(held.requests, requests);
                prop_assert_eq!(held.answers, reserved + waiting);
            }
            for number in 0..6 {
                backlog.forget(&id(number));
            }
            unread.clear();
            let held = lock(&backlog.held);
            prop_assert_eq!((held.requests, held.answers), (0, 0));
        }
    }
}

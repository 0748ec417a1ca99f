//! Wake-ups for calls that wait for attempts or questions to change. They are hints: a
//! waiter that is woken reads the tables, which are the truth. It registers before it reads,
//! so it misses no later change. One fact is kept here and in no table: which attempts wait
//! for the disk, for then there may be no room for a row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_actors::ids::{AttemptId, QuestionId};
use tokio::sync::Notify;

/// What a call can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Attempt(AttemptId),
    Question(QuestionId),
}

impl From<AttemptId> for Topic {
    fn from(attempt: AttemptId) -> Self {
        Self::Attempt(attempt)
    }
}

impl From<QuestionId> for Topic {
    fn from(question: QuestionId) -> Self {
        Self::Question(question)
    }
}

/// The registry of waiters. Cheap to clone: there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// The number that the next watch gets.
    next: u64,
    by_topic: HashMap<Topic, HashMap<u64, Arc<Notify>>>,
    /// The attempts that wait for the disk, and why.
    for_disk: HashMap<AttemptId, String>,
}

impl Changes {
    /// Wakes the watches of an attempt or a question. Call it after the commit: a waiter that
    /// is woken before it would read the old rows and sleep again.
    pub(super) fn announce(&self, topic: impl Into<Topic>) {
        let waiting = self.lock();
        for wake in waiting.by_topic.get(&topic.into()).into_iter().flat_map(HashMap::values) {
            wake.notify_one();
        }
    }

    /// Notes why an attempt waits for the disk; `None`: it no longer does.
    pub(super) fn wait_for_disk(&self, attempt: AttemptId, reason: Option<&str>) {
        let mut waiting = self.lock();
        let before = match reason {
            Some(reason) => waiting.for_disk.insert(attempt, reason.to_owned()),
            None => waiting.for_disk.remove(&attempt),
        };
        drop(waiting);
        if before.as_deref() != reason {
            self.announce(attempt);
        }
    }

    /// Why an attempt waits for the disk, if it does.
    pub(super) fn waits_for_disk(&self, attempt: AttemptId) -> Option<String> {
        self.lock().for_disk.get(&attempt).cloned()
    }

    pub(super) fn watch<T: Into<Topic> + Copy>(&self, topics: &[T]) -> Watch {
        let topics: Vec<Topic> = topics.iter().map(|topic| (*topic).into()).collect();
        let wake = Arc::new(Notify::new());
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        for topic in &topics {
            waiting.by_topic.entry(*topic).or_default().insert(number, Arc::clone(&wake));
        }
        drop(waiting);
        Watch { changes: self.clone(), topics, number, wake }
    }

    /// The registry is whole after every step on it, also after one that panicked.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiter's place in the registry, given up when it is dropped.
#[derive(Debug)]
pub struct Watch {
    changes: Changes,
    topics: Vec<Topic>,
    number: u64,
    wake: Arc<Notify>,
}

impl Watch {
    /// Resolves once one of them may have changed since the watch began
    /// or this last resolved. Cancel safe.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.changes.lock();
        for topic in &self.topics {
            if let Some(watches) = waiting.by_topic.get_mut(topic) {
                watches.remove(&self.number);
                if watches.is_empty() {
                    waiting.by_topic.remove(topic);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_woken(watch: &Watch) -> bool {
        watch.changed().now_or_never().is_some()
    }

    #[test]
    fn an_announcement_wakes_only_those_concerned_and_also_before_they_sleep() {
        let changes = Changes::default();
        let (one, other) = (AttemptId::new(), AttemptId::new());
        let watches = [&[one][..], &[other], &[one, other, one]].map(|ids| changes.watch(ids));
        changes.announce(one);
        changes.announce(one);
        assert_eq!(watches.each_ref().map(is_woken), [true, false, true]);
        assert_eq!(watches.each_ref().map(is_woken), [false; 3], "woken once for both");
        changes.announce(other);
        assert_eq!(watches.each_ref().map(is_woken), [false, true, true]);
    }

    #[test]
    fn a_wait_for_the_disk_is_announced_when_it_begins_and_when_it_ends() {
        let (changes, one) = (Changes::default(), AttemptId::new());
        let watch = changes.watch(&[one]);
        changes.wait_for_disk(one, None);
        assert!(!is_woken(&watch), "nothing has changed");
        changes.wait_for_disk(one, Some("full"));
        assert!(is_woken(&watch));
        assert_eq!(changes.waits_for_disk(one).as_deref(), Some("full"));
        changes.wait_for_disk(one, Some("full"));
        assert!(!is_woken(&watch));
        changes.wait_for_disk(one, None);
        assert!(is_woken(&watch));
        assert_eq!(changes.waits_for_disk(one), None);
    }

    #[test]
    fn nothing_is_left_of_watches_that_ended() {
        let changes = Changes::default();
        let attempts: Vec<AttemptId> = (0..50).map(|_| AttemptId::new()).collect();
        let watches: Vec<Watch> = (0..2000).map(|_| changes.watch(&attempts)).collect();
        drop(watches);
        assert!(changes.lock().by_topic.is_empty());
    }
}

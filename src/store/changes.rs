//! Wake-ups for those who wait for attempts to change. They are hints: whoever
//! is woken reads the tables, which say what is so. Registered before it reads, a
//! waiter misses no change that comes after. One thing is told here and in no
//! table: which attempts wait for the disk, for then there may be no room in one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_actors::ids::AttemptId;
use tokio::sync::Notify;

/// Who waits for which attempt. Cheap to clone: there is one registry.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// The number that the next watch gets.
    next: u64,
    by_attempt: HashMap<AttemptId, HashMap<u64, Arc<Notify>>>,
    /// The attempts that wait for the disk, and why.
    for_disk: HashMap<AttemptId, String>,
}

impl Changes {
    /// Wakes those who watch an attempt. To be called after the commit.
    pub(super) fn announce(&self, attempt: AttemptId) {
        let waiting = self.lock();
        for wake in waiting.by_attempt.get(&attempt).into_iter().flat_map(HashMap::values) {
            wake.notify_one();
        }
    }

    /// Notes why an attempt waits for the disk, or that it does no longer.
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

    pub(super) fn watch(&self, attempts: &[AttemptId]) -> Watch {
        let wake = Arc::new(Notify::new());
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        for attempt in attempts {
            waiting.by_attempt.entry(*attempt).or_default().insert(number, Arc::clone(&wake));
        }
        drop(waiting);
        Watch { changes: self.clone(), attempts: attempts.to_vec(), number, wake }
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
    attempts: Vec<AttemptId>,
    number: u64,
    wake: Arc<Notify>,
}

impl Watch {
    /// Resolves once one of the attempts may have changed since the watch began
    /// or this last resolved. Cancel safe.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.changes.lock();
        for attempt in &self.attempts {
            if let Some(watches) = waiting.by_attempt.get_mut(attempt) {
                watches.remove(&self.number);
                if watches.is_empty() {
                    waiting.by_attempt.remove(attempt);
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
        assert!(changes.lock().by_attempt.is_empty());
    }
}

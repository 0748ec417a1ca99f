//! Wake-ups for calls that wait for attempts or questions to change. A wake-up is a hint: the waiter then
//! reads the tables, which hold the truth. A waiter registers before it reads, so it misses no change.
//!
//! Some waits are kept here and in no table: which attempts wait for the disk (a full disk has no room for a
//! row), which wait for another attempt's setup, and what executors wait for. Each start of a daemon finds
//! them again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use provost_actors::blocking::lock;
use provost_actors::ids::AttemptId;
use provost_actors::journal::WaitingOn;
use provost_actors::refusal::Refusal;
use tokio::sync::{Notify, watch};

use super::Store;
use super::sql::Sql;
use crate::api::users::Changed;

impl Store {
    /// The changed objects whose last change has a number above `number`, in the order of the changes.
    pub async fn changes_after(&self, number: u64, limit: usize) -> Result<Vec<Changed>, Refusal> {
        let sql = "SELECT number, topic, id FROM changes WHERE number > $1
                   ORDER BY number LIMIT $2";
        self.read(async |db| db.all(sql, (number, limit)).await).await
    }

    /// The number of the newest change; 0: there was none.
    pub async fn newest_change(&self) -> Result<u64, Refusal> {
        let sql = "SELECT coalesce(max(number), 0) FROM changes";
        self.read(async |db| db.one(sql, ()).await).await
    }

    /// A channel that is marked as changed after the writes of this daemon, and when `follow` has found
    /// changes by other daemons.
    pub fn commits(&self) -> watch::Receiver<()> {
        self.changes.1.subscribe()
    }
}

/// The registry of waiters, and the channel of those that follow all changes. Cheap to clone: all clones
/// share one registry.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(Arc<Mutex<Waiting>>, watch::Sender<()>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// The waiters of each attempt, question or hint, by its id or name.
    by_topic: HashMap<String, HashMap<u64, Arc<Notify>>>,
    for_disk: HashMap<AttemptId, String>,
    /// What executors wait for: their work in the background, or their model.
    for_other: HashMap<AttemptId, WaitingOn>,
    /// The attempt, and the one whose setup it waits for.
    for_setup: HashMap<AttemptId, AttemptId>,
}

impl Changes {
    /// Wakes those that follow all changes.
    pub(super) fn committed(&self) {
        self.1.send_replace(());
    }

    /// Wakes the watches of an attempt, a question or a hint. Call this after the commit: a waiter that is
    /// woken earlier would read the old rows and sleep again.
    pub(super) fn announce(&self, topic: impl ToString + Copy) {
        let waiting = lock(&self.0);
        for wake in waiting.by_topic.get(&topic.to_string()).into_iter().flat_map(HashMap::values) {
            wake.notify_one();
        }
    }

    /// Notes why an attempt waits for the disk; `None`: it no longer does. Wakes its waiters if that changed.
    pub(super) fn wait_for_disk(&self, attempt: AttemptId, reason: Option<&str>) {
        let mut waiting = lock(&self.0);
        let before = match reason {
            Some(reason) => waiting.for_disk.insert(attempt, reason.to_owned()),
            None => waiting.for_disk.remove(&attempt),
        };
        drop(waiting);
        if before.as_deref() != reason {
            self.announce(attempt);
        }
    }

    /// Notes whose setup an attempt waits for; `None`: it no longer does. Wakes its waiters if that changed.
    pub(super) fn wait_for_setup(&self, attempt: AttemptId, of: Option<AttemptId>) {
        let mut waiting = lock(&self.0);
        let before = match of {
            Some(of) => waiting.for_setup.insert(attempt, of),
            None => waiting.for_setup.remove(&attempt),
        };
        drop(waiting);
        if before != of {
            self.announce(attempt);
        }
    }

    /// The attempt whose setup this one waits for; `None`: it waits for none.
    pub(super) fn waits_for_setup(&self, attempt: AttemptId) -> Option<AttemptId> {
        lock(&self.0).for_setup.get(&attempt).copied()
    }

    /// Why an attempt waits for the disk; `None`: it does not.
    pub(super) fn waits_for_disk(&self, attempt: AttemptId) -> Option<String> {
        lock(&self.0).for_disk.get(&attempt).cloned()
    }

    /// Notes what the executor of an attempt waits for; `None`: nothing. Wakes its waiters if that changed.
    pub(super) fn wait_for(&self, attempt: AttemptId, what: Option<WaitingOn>) {
        let mut waiting = lock(&self.0);
        let before = match what {
            Some(what) => waiting.for_other.insert(attempt, what),
            None => waiting.for_other.remove(&attempt),
        };
        drop(waiting);
        if before != what {
            self.announce(attempt);
        }
    }

    /// What the executor of an attempt waits for; `None`: nothing.
    pub(super) fn waits_for(&self, attempt: AttemptId) -> Option<WaitingOn> {
        lock(&self.0).for_other.get(&attempt).copied()
    }

    /// Registers a waiter for these topics, which are ids, or names of hints.
    pub(super) fn watch<T: ToString>(&self, topics: &[T]) -> ChangeWatch {
        let topics: Vec<String> = topics.iter().map(T::to_string).collect();
        let wake = Arc::new(Notify::new());
        let mut waiting = lock(&self.0);
        let number = waiting.next;
        waiting.next += 1;
        for topic in &topics {
            waiting.by_topic.entry(topic.clone()).or_default().insert(number, Arc::clone(&wake));
        }
        drop(waiting);
        ChangeWatch { changes: self.clone(), topics, number, wake }
    }
}

/// The registration of a waiter, which ends when this is dropped.
#[derive(Debug)]
pub struct ChangeWatch {
    changes: Changes,
    topics: Vec<String>,
    number: u64,
    wake: Arc<Notify>,
}

impl ChangeWatch {
    /// Resolves once one of the topics may have changed since the registration, or since this last resolved.
    /// Cancel safe.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl Drop for ChangeWatch {
    fn drop(&mut self) {
        let mut waiting = lock(&self.changes.0);
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

    fn is_woken(watch: &ChangeWatch) -> bool {
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
        let watches: Vec<ChangeWatch> = (0..2000).map(|_| changes.watch(&attempts)).collect();
        drop(watches);
        assert!(lock(&changes.0).by_topic.is_empty());
    }
}

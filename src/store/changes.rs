//! Wake-ups for calls that wait for attempts or questions to change. They are hints: a
//! waiter that is woken reads the tables, which are the truth. It registers before it reads,
//! so it misses no later change. One fact is kept here and in no table: which attempts wait
//! for the disk, for then there may be no room for a row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use provost_actors::blocking::lock;
use provost_actors::ids::AttemptId;
use tokio::sync::broadcast;

/// How many announcements a waiter may miss before it is woken without looking at them.
const BACKLOG: usize = 256;

/// Where changes are announced. Cheap to clone: there is one.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    /// The ids of the attempts and questions that have changed.
    changed: broadcast::Sender<String>,
    for_disk: Arc<Mutex<HashMap<AttemptId, String>>>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { changed: broadcast::Sender::new(BACKLOG), for_disk: Arc::default() }
    }
}

impl Changes {
    /// Wakes the watches of an attempt or a question. Call it after the commit: a waiter that
    /// is woken before it would read the old rows and sleep again.
    pub(super) fn announce(&self, id: impl ToString + Copy) {
        // It fails only where no call waits.
        let _ = self.changed.send(id.to_string());
    }

    /// Notes why an attempt waits for the disk; `None`: it no longer does.
    pub(super) fn wait_for_disk(&self, attempt: AttemptId, reason: Option<&str>) {
        let before = match reason {
            Some(reason) => lock(&self.for_disk).insert(attempt, reason.to_owned()),
            None => lock(&self.for_disk).remove(&attempt),
        };
        if before.as_deref() != reason {
            self.announce(attempt);
        }
    }

    pub(super) fn waits_for_disk(&self, attempt: AttemptId) -> Option<String> {
        lock(&self.for_disk).get(&attempt).cloned()
    }

    pub(super) fn watch<T: ToString>(&self, ids: &[T]) -> Watch {
        let ids = ids.iter().map(T::to_string).collect();
        Watch { ids, changed: self.changed.subscribe() }
    }
}

/// A waiter for changes of some attempts or questions.
#[derive(Debug)]
pub struct Watch {
    ids: Vec<String>,
    changed: broadcast::Receiver<String>,
}

impl Watch {
    /// Resolves once one of them may have changed since the watch began
    /// or this last resolved. Cancel safe.
    pub async fn changed(&mut self) {
        // An error: more was announced than is kept, so one of them may have changed.
        while let Ok(id) = self.changed.recv().await
            && !self.ids.contains(&id)
        {}
        // The caller's next look shows all that was announced until now.
        self.changed = self.changed.resubscribe();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_woken(watch: &mut Watch) -> bool {
        watch.changed().now_or_never().is_some()
    }

    #[test]
    fn an_announcement_wakes_only_those_concerned_and_also_before_they_sleep() {
        let changes = Changes::default();
        let (one, other) = (AttemptId::new(), AttemptId::new());
        let mut watches = [&[one][..], &[other], &[one, other, one]].map(|ids| changes.watch(ids));
        changes.announce(one);
        changes.announce(one);
        assert_eq!(watches.each_mut().map(is_woken), [true, false, true]);
        assert_eq!(watches.each_mut().map(is_woken), [false; 3], "woken once for both");
        changes.announce(other);
        assert_eq!(watches.each_mut().map(is_woken), [false, true, true]);
    }

    #[test]
    fn a_wait_for_the_disk_is_announced_when_it_begins_and_when_it_ends() {
        let (changes, one) = (Changes::default(), AttemptId::new());
        let mut watch = changes.watch(&[one]);
        changes.wait_for_disk(one, None);
        assert!(!is_woken(&mut watch), "nothing has changed");
        changes.wait_for_disk(one, Some("full"));
        assert!(is_woken(&mut watch));
        assert_eq!(changes.waits_for_disk(one).as_deref(), Some("full"));
        changes.wait_for_disk(one, Some("full"));
        assert!(!is_woken(&mut watch));
        changes.wait_for_disk(one, None);
        assert!(is_woken(&mut watch));
        assert_eq!(changes.waits_for_disk(one), None);
    }

    #[test]
    fn a_watch_that_slept_through_too_much_is_woken() {
        let (changes, one) = (Changes::default(), AttemptId::new());
        let mut watch = changes.watch(&[one]);
        (0..=BACKLOG).for_each(|_| changes.announce(AttemptId::new()));
        assert!(is_woken(&mut watch));
        assert!(!is_woken(&mut watch));
    }
}

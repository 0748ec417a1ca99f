//! Who runs and who waits: so many attempts at once, further ones in the order
//! of their priority, and within one first come first served. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use crate::ids::AttemptId;
use crate::journal::Priority;

/// The running slots and the queue for them.
#[derive(Debug)]
pub struct Admission {
    slots: usize,
    running: HashSet<AttemptId>,
    queue: BTreeMap<(Reverse<Priority>, u64), AttemptId>,
    arrivals: u64,
}

impl Admission {
    /// With so many slots; at least one.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self { slots, running: HashSet::new(), queue: BTreeMap::new(), arrivals: 0 }
    }

    /// Takes a slot, if one is free that nobody waits for. It is held until
    /// [`leave`](Self::leave). `false` also for one that holds a slot already.
    pub fn take(&mut self, attempt: AttemptId) -> bool {
        let is_free = self.running.len() < self.slots && self.queue.is_empty();
        is_free && self.running.insert(attempt)
    }

    /// Takes its place at the end of the queue. Only what is written down may:
    /// a slot can be granted at any time from then on.
    pub fn queue(&mut self, attempt: AttemptId, priority: Priority) {
        self.arrivals += 1;
        self.queue.insert((Reverse(priority), self.arrivals), attempt);
    }

    /// Holds a slot whatever their number: it runs already (a restart).
    pub fn occupy(&mut self, attempt: AttemptId) {
        self.running.insert(attempt);
    }

    /// Gives up its slot or its place in the queue.
    pub fn leave(&mut self, attempt: AttemptId) {
        self.running.remove(&attempt);
        self.queue.retain(|_, waiting| *waiting != attempt);
    }

    /// Grants a free slot to the first in the queue. Call until `None`.
    pub fn next(&mut self) -> Option<AttemptId> {
        if self.running.len() >= self.slots {
            return None;
        }
        let (_, attempt) = self.queue.pop_first()?;
        self.running.insert(attempt);
        Some(attempt)
    }

    /// How many run and how many wait.
    pub fn counts(&self) -> (usize, usize) {
        (self.running.len(), self.queue.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(count: usize) -> Vec<AttemptId> {
        (0..count).map(|_| AttemptId::new()).collect()
    }

    #[test]
    fn the_queue_is_first_come_first_served_within_a_priority() {
        let id = ids(5);
        let mut admission = Admission::new(1);
        assert!(admission.take(id[0]));
        for (attempt, priority) in [
            (id[1], Priority::Medium),
            (id[2], Priority::Critical),
            (id[3], Priority::Medium),
            (id[4], Priority::Critical),
        ] {
            assert!(!admission.take(attempt));
            admission.queue(attempt, priority);
        }
        let mut order = vec![];
        let mut last = id[0];
        loop {
            admission.leave(last);
            let Some(next) = admission.next() else { break };
            order.push(next);
            last = next;
        }
        assert_eq!(order, [id[2], id[4], id[1], id[3]]);
    }

    proptest! {
        #[test]
        fn slots_are_never_overfilled_and_nobody_is_forgotten(
            slots in 1usize..5,
            steps in prop::collection::vec((0usize..12, 0u8..3), 1..60),
        ) {
            let id = ids(12);
            let mut admission = Admission::new(slots);
            let mut waiting: HashSet<AttemptId> = HashSet::new();
            let mut running: HashSet<AttemptId> = HashSet::new();
            for (which, step) in steps {
                let attempt = id[which];
                match step {
                    0 if !waiting.contains(&attempt) && !running.contains(&attempt) => {
                        if admission.take(attempt) {
                            running.insert(attempt);
                        } else {
                            admission.queue(attempt, Priority::Medium);
                            waiting.insert(attempt);
                        }
                    }
                    1 => {
                        admission.leave(attempt);
                        waiting.remove(&attempt);
                        running.remove(&attempt);
                    }
                    _ => {}
                }
                while let Some(next) = admission.next() {
                    prop_assert!(waiting.remove(&next));
                    running.insert(next);
                }
                prop_assert!(running.len() <= slots);
                prop_assert_eq!(admission.counts(), (running.len(), waiting.len()));
                prop_assert!(waiting.is_empty() || running.len() == slots);
            }
        }
    }
}

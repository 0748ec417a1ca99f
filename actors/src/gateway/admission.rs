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
    queue: BTreeMap<(Reverse<Priority>, u64), Waiting>,
    arrivals: u64,
}

#[derive(Debug)]
struct Waiting {
    attempt: AttemptId,
    /// Its start has been written down; before that it can't be granted a slot.
    recorded: bool,
}

impl Admission {
    /// With so many slots; at least one.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self { slots, running: HashSet::new(), queue: BTreeMap::new(), arrivals: 0 }
    }

    /// Asks for a slot. `true`: it runs, and holds the slot until [`leave`](Self::leave);
    /// `false`: it waits.
    pub fn offer(&mut self, attempt: AttemptId, priority: Priority) -> bool {
        let granted = self.running.len() < self.slots && self.queue.is_empty();
        if granted {
            self.running.insert(attempt);
        } else {
            self.wait(attempt, priority, false);
        }
        granted
    }

    /// Takes its place at the end of the queue, written down already (a restart).
    pub fn queue(&mut self, attempt: AttemptId, priority: Priority) {
        self.wait(attempt, priority, true);
    }

    /// Holds a slot whatever their number: it runs already (a restart).
    pub fn occupy(&mut self, attempt: AttemptId) {
        self.running.insert(attempt);
    }

    /// A waiting start has been written down.
    pub fn recorded(&mut self, attempt: AttemptId) {
        if let Some(waiting) = self.queue.values_mut().find(|waiting| waiting.attempt == attempt) {
            waiting.recorded = true;
        }
    }

    /// Gives up its slot or its place in the queue. `true` if it had a place in the queue.
    pub fn leave(&mut self, attempt: AttemptId) -> bool {
        self.running.remove(&attempt);
        let before = self.queue.len();
        self.queue.retain(|_, waiting| waiting.attempt != attempt);
        self.queue.len() < before
    }

    pub fn is_waiting(&self, attempt: AttemptId) -> bool {
        self.queue.values().any(|waiting| waiting.attempt == attempt)
    }

    /// Grants a free slot to the first in the queue. Call until `None`.
    pub fn next(&mut self) -> Option<AttemptId> {
        if self.running.len() >= self.slots {
            return None;
        }
        let place = self.queue.iter().find(|(_, waiting)| waiting.recorded).map(|(&at, _)| at)?;
        let attempt = self.queue.remove(&place)?.attempt;
        self.running.insert(attempt);
        Some(attempt)
    }

    /// How many run and how many wait.
    pub fn counts(&self) -> (usize, usize) {
        (self.running.len(), self.queue.len())
    }

    fn wait(&mut self, attempt: AttemptId, priority: Priority, recorded: bool) {
        self.arrivals += 1;
        let place = (Reverse(priority), self.arrivals);
        self.queue.insert(place, Waiting { attempt, recorded });
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
        assert!(admission.offer(id[0], Priority::Low));
        for (attempt, priority) in [
            (id[1], Priority::Medium),
            (id[2], Priority::Critical),
            (id[3], Priority::Medium),
            (id[4], Priority::Critical),
        ] {
            assert!(!admission.offer(attempt, priority));
            admission.recorded(attempt);
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

    #[test]
    fn a_start_that_is_not_written_down_is_passed_over_and_keeps_its_place() {
        let id = ids(3);
        let mut admission = Admission::new(1);
        admission.offer(id[0], Priority::Medium);
        admission.offer(id[1], Priority::Medium);
        admission.queue(id[2], Priority::Medium);
        admission.leave(id[0]);
        assert_eq!(admission.next(), Some(id[2]));
        admission.recorded(id[1]);
        admission.leave(id[2]);
        assert_eq!(admission.next(), Some(id[1]));
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
                        if admission.offer(attempt, Priority::Medium) {
                            running.insert(attempt);
                        } else {
                            admission.recorded(attempt);
                            waiting.insert(attempt);
                        }
                    }
                    1 => {
                        prop_assert_eq!(admission.leave(attempt), waiting.remove(&attempt));
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

//! Who runs and who waits: so many attempts at once, further ones in the order
//! of their priority, and within one first come first served; no attempt begins on a host that drains.
//! Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use crate::ids::AttemptId;
use crate::journal::Priority;

/// The running slots and the queues for them. Attempts that answer a question have slots
/// of their own: the asker holds one of the others, and would wait forever.
#[derive(Debug)]
pub struct Admission {
    work: Lane,
    answers: Lane,
    answering: HashSet<AttemptId>,
    is_held: bool,
}

#[derive(Debug)]
struct Lane {
    slots: usize,
    running: HashSet<AttemptId>,
    queue: BTreeMap<(Reverse<Priority>, u64), AttemptId>,
    arrivals: u64,
}

impl Admission {
    /// With so many slots for work and for answers.
    pub fn new(work: usize, answers: usize) -> Self {
        let answering = HashSet::new();
        Self { work: Lane::new(work), answers: Lane::new(answers), answering, is_held: false }
    }

    /// Grants no slot while it is held; who waits keeps the place.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Notes that an attempt answers a question, until it is [forgotten](Self::forget).
    pub fn answers(&mut self, attempt: AttemptId) {
        self.answering.insert(attempt);
    }

    /// Nothing of an attempt is alive or waits.
    pub fn forget(&mut self, attempt: AttemptId) {
        self.leave(attempt);
        self.answering.remove(&attempt);
    }

    /// Takes a slot, if one is free and none waits for it. The attempt has it until
    /// [`leave`](Self::leave). `false` also for an attempt that has a slot already.
    pub fn take(&mut self, attempt: AttemptId) -> bool {
        if self.is_held {
            return false;
        }
        let lane = self.lane(attempt);
        let is_free = lane.running.len() < lane.slots && lane.queue.is_empty();
        is_free && lane.running.insert(attempt)
    }

    /// Enters the queue, once the start or turn is written down: a slot may come at any time.
    pub fn queue(&mut self, attempt: AttemptId, priority: Priority) {
        let lane = self.lane(attempt);
        lane.arrivals += 1;
        lane.queue.insert((Reverse(priority), lane.arrivals), attempt);
    }

    /// Holds a slot beyond any limit, for an attempt that runs already (a restart).
    pub fn occupy(&mut self, attempt: AttemptId) {
        self.lane(attempt).running.insert(attempt);
    }

    /// Gives up its slot or its place in the queue.
    pub fn leave(&mut self, attempt: AttemptId) {
        let lane = self.lane(attempt);
        lane.running.remove(&attempt);
        lane.queue.retain(|_, waiting| *waiting != attempt);
    }

    /// Grants a free slot to the first in a queue. Call until `None`.
    pub fn next(&mut self) -> Option<AttemptId> {
        if self.is_held {
            return None;
        }
        self.work.next().or_else(|| self.answers.next())
    }

    /// How many slots for work are free, and none waits for them.
    pub fn free(&self) -> usize {
        let Lane { slots, running, queue, .. } = &self.work;
        if self.is_held { 0 } else { slots.saturating_sub(running.len() + queue.len()) }
    }

    pub fn counts(&self) -> (usize, usize) {
        let (work, answers) = (&self.work, &self.answers);
        (work.running.len() + answers.running.len(), work.queue.len() + answers.queue.len())
    }

    fn lane(&mut self, attempt: AttemptId) -> &mut Lane {
        if self.answering.contains(&attempt) { &mut self.answers } else { &mut self.work }
    }
}

impl Lane {
    fn new(slots: usize) -> Self {
        Self { slots, running: HashSet::new(), queue: BTreeMap::new(), arrivals: 0 }
    }

    fn next(&mut self) -> Option<AttemptId> {
        if self.running.len() >= self.slots {
            return None;
        }
        let (_, attempt) = self.queue.pop_first()?;
        self.running.insert(attempt);
        Some(attempt)
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
        let mut admission = Admission::new(1, 1);
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

    #[test]
    fn who_answers_takes_no_slot_of_those_who_work() {
        let id = ids(4);
        let mut admission = Admission::new(1, 1);
        for asked in &id[1..3] {
            admission.answers(*asked);
        }
        assert!(admission.take(id[0]) && admission.take(id[1]));
        for waiting in [id[2], id[3]] {
            assert!(!admission.take(waiting));
            admission.queue(waiting, Priority::Medium);
        }
        assert_eq!((admission.next(), admission.counts()), (None, (2, 2)));
        admission.forget(id[1]);
        assert_eq!((admission.next(), admission.next()), (Some(id[2]), None));
        admission.leave(id[0]);
        assert_eq!(admission.next(), Some(id[3]));
    }

    #[test]
    fn none_begins_while_it_is_held_and_then_all_do_in_their_order() {
        let id = ids(4);
        let mut admission = Admission::new(3, 1);
        admission.answers(id[3]);
        assert!(admission.take(id[0]));
        admission.hold(true);
        for waiting in [id[1], id[2], id[3]] {
            assert!(!admission.take(waiting));
            admission.queue(waiting, Priority::Medium);
        }
        // Also a slot that gets free is not given away, and what runs already has one.
        admission.leave(id[0]);
        admission.occupy(id[0]);
        assert_eq!((admission.next(), admission.counts()), (None, (1, 3)));
        assert_eq!(admission.free(), 0);
        admission.hold(false);
        assert_eq!(admission.free(), 0, "the queue needs both");
        let granted: Vec<_> = std::iter::from_fn(|| admission.next()).collect();
        assert_eq!(granted, [id[1], id[2], id[3]]);
    }

    proptest! {
        #[test]
        fn slots_are_never_overfilled_and_nobody_is_forgotten(
            slots in 1usize..5,
            steps in prop::collection::vec((0usize..12, 0u8..3), 1..60),
        ) {
            let id = ids(12);
            let mut admission = Admission::new(slots, 1);
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

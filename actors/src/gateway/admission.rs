//! Who runs and who waits on this host. Pure.
//!
//! ```text
//!          take: a slot is free, and no attempt waits that could have it
//!   new ─────────────────────────────────────────────────────────────▶ runs, with a slot
//!    └─queue─▶ waits ─next: the first in the queue that fits──────────▶ │  ▲
//!                │                                                      │  └─occupy: after a restart
//!                └────leave────▶ neither runs nor waits ◀────leave──────┘
//!                                  └─forget─▶ what it asks for is forgotten, too
//! ```
//!
//! The queue is in the order of priorities, and within one first come, first served. What breaks that order:
//!
//! - While the host drains, no attempt begins.
//! - Attempts that wait for memory are passed only by attempts that ask for none.
//! - Attempts that wait for their executor's limit are passed only by attempts of other executors; on a
//!   shared board also by attempts with a permit of the board.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::ids::AttemptId;
use crate::journal::Priority;

/// The running slots and the queues for them. Attempts that answer a question have slots of their own: the
/// asker keeps its slot while it waits for the answer, so with one kind of slots all could be taken by
/// askers.
#[derive(Debug)]
pub struct Admission {
    work: Lane,
    answers: Lane,
    answering: HashSet<AttemptId>,
    is_held: bool,
    /// Bytes that attempts may ask for together; 0: memory is not counted.
    memory: u64,
    /// What attempts ask for beside a slot; only attempts that ask for something are here.
    asks: HashMap<AttemptId, Asks>,
    /// On a shared board, the attempts that the board has let begin, as far as the limits of their
    /// executors are concerned. `None`: only this host's attempts count for these limits.
    permitted: Option<HashSet<AttemptId>>,
}

/// What an attempt that works asks for beside a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    pub executor: String,
    /// In bytes.
    pub memory: u64,
    /// How many attempts of the executor may run at once; `None`: any number.
    pub max_running: Option<u64>,
}

impl Asks {
    /// It asks for nothing but a slot.
    pub fn is_none(&self) -> bool {
        self.memory == 0 && self.max_running.is_none()
    }
}

/// The order of a queue: higher priorities first, then earlier arrivals.
type QueueKey = (Reverse<Priority>, u64);

/// One kind of slots, and the queue for them.
#[derive(Debug)]
struct Lane {
    slots: usize,
    running: HashSet<AttemptId>,
    queue: BTreeMap<QueueKey, AttemptId>,
    arrivals: u64,
}

/// What the attempts earlier in the queue wait for, while it is looked through.
#[derive(Default)]
struct WaitedFor<'a> {
    memory: bool,
    executors: HashSet<&'a str>,
}

impl Admission {
    /// With so many slots for work and for answers, and this memory, in bytes; 0: it is not counted.
    /// `is_shared`: attempts of other hosts count for the limits of executors, too.
    pub fn new(work: usize, answers: usize, memory: u64, is_shared: bool) -> Self {
        Self {
            work: Lane::new(work),
            answers: Lane::new(answers),
            answering: HashSet::new(),
            is_held: false,
            memory,
            asks: HashMap::new(),
            permitted: is_shared.then(HashSet::new),
        }
    }

    /// Notes what an attempt asks for, until it is [forgotten](Self::forget). An attempt that asks for more
    /// memory than there is, because the host had more before, gets all of it: else it would wait for ever.
    pub fn asks(&mut self, attempt: AttemptId, asks: Asks) {
        let memory = if self.memory == 0 { 0 } else { asks.memory.min(self.memory) };
        let asks = Asks { memory, ..asks };
        if asks.is_none() {
            self.asks.remove(&attempt);
        } else {
            self.asks.insert(attempt, asks);
        }
    }

    /// The board lets an attempt begin. The permit lasts until it [leaves](Self::leave): each turn needs
    /// its own.
    pub fn permit(&mut self, attempt: AttemptId) {
        if let Some(permitted) = &mut self.permitted {
            permitted.insert(attempt);
        }
    }

    /// The attempts that would begin here with a permit: the board is asked for these. For each executor at
    /// most as many as slots are free.
    pub fn unpermitted(&self) -> Vec<AttemptId> {
        let (lane, free) = (&self.work, self.work.free());
        let Some(permitted) = self.permitted.as_ref().filter(|_| !self.is_held && free > 0) else {
            return Vec::new();
        };
        let mut of: HashMap<&str, usize> = HashMap::new();
        let wants = |id: &&AttemptId| {
            let Some(asks) = self.asks.get(id).filter(|it| it.max_running.is_some()) else {
                return false;
            };
            if permitted.contains(*id) || !self.has_memory(asks.memory) {
                return false;
            }
            let before = of.entry(&asks.executor).or_default();
            *before += 1;
            *before <= free
        };
        lane.queue.values().filter(wants).copied().collect()
    }

    /// While it is held, no slot is granted; those who wait keep their places. For a host that drains.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Notes that an attempt answers a question, until it is [forgotten](Self::forget). Has to come before
    /// the other calls for this attempt, as it chooses the kind of slots.
    pub fn answers(&mut self, attempt: AttemptId) {
        self.answering.insert(attempt);
    }

    /// Nothing of an attempt is alive or waits: forgets all about it.
    pub fn forget(&mut self, attempt: AttemptId) {
        self.leave(attempt);
        self.answering.remove(&attempt);
        self.asks.remove(&attempt);
    }

    /// Takes a slot, if one is free and no attempt waits that could have it. The attempt has it until it
    /// [leaves](Self::leave). `false` also for an attempt that has a slot already.
    pub fn take(&mut self, attempt: AttemptId) -> bool {
        if self.is_held {
            return false;
        }
        let lane = if self.answering.contains(&attempt) { &self.answers } else { &self.work };
        let mut before = WaitedFor::default();
        let is_free = lane.free() > 0
            && self.first(lane, &mut before).is_none()
            && self.fits(attempt, &mut before);
        is_free && self.lane(attempt).running.insert(attempt)
    }

    /// Enters the queue. Only once the start or turn is written down and has an owner: a slot may be
    /// granted at once.
    pub fn queue(&mut self, attempt: AttemptId, priority: Priority) {
        let lane = self.lane(attempt);
        lane.arrivals += 1;
        lane.queue.insert((Reverse(priority), lane.arrivals), attempt);
    }

    /// Gives a slot beyond any limit to an attempt that runs already: after a restart.
    pub fn occupy(&mut self, attempt: AttemptId) {
        self.lane(attempt).running.insert(attempt);
    }

    /// Gives up the slot or the place in the queue, and the permit.
    pub fn leave(&mut self, attempt: AttemptId) {
        let lane = self.lane(attempt);
        lane.running.remove(&attempt);
        lane.queue.retain(|_, waiting| *waiting != attempt);
        if let Some(permitted) = &mut self.permitted {
            permitted.remove(&attempt);
        }
    }

    /// Grants a free slot to the first in a queue that can have it. The caller repeats this until `None`.
    pub fn next(&mut self) -> Option<AttemptId> {
        let first = |lane| self.first(lane, &mut WaitedFor::default());
        if self.is_held {
            None
        } else if let Some(place) = first(&self.work) {
            self.work.begin(place)
        } else {
            let place = first(&self.answers)?;
            self.answers.begin(place)
        }
    }

    /// How many slots for work are free after each waiting attempt that could have one has got one.
    pub fn free(&self) -> usize {
        let (free, mut before) = (self.work.free(), WaitedFor::default());
        if self.is_held || free == 0 {
            return 0;
        }
        let ready = self.work.queue.values().filter(|it| self.fits(**it, &mut before)).count();
        free.saturating_sub(ready)
    }

    /// Bytes of memory that are free; 0 while an attempt waits for memory, `u64::MAX` where memory is not
    /// counted.
    pub fn free_memory(&self) -> u64 {
        let asks = |id| self.asks.get(id).is_some_and(|it| it.memory > 0);
        match self.memory {
            0 => u64::MAX,
            _ if self.work.queue.values().any(asks) => 0,
            all => all.saturating_sub(self.used_memory()),
        }
    }

    /// The first in a queue that could have a slot, if one is free. `before` collects what those before it
    /// wait for.
    fn first<'a>(&'a self, lane: &'a Lane, before: &mut WaitedFor<'a>) -> Option<QueueKey> {
        if lane.free() == 0 {
            return None;
        }
        let mut queue = lane.queue.iter();
        queue.find(|(_, attempt)| self.fits(**attempt, before)).map(|(place, _)| *place)
    }

    /// Whether an attempt could begin behind the attempts `before` it that wait. Adds to `before` what it
    /// waits for.
    fn fits<'a>(&'a self, attempt: AttemptId, before: &mut WaitedFor<'a>) -> bool {
        let Some(asks) = self.asks.get(&attempt) else { return true };
        let executor = asks.executor.as_str();
        match (asks.max_running, &self.permitted) {
            (None, _) => {}
            // With a permit: the board has chosen the order among those of the executor.
            (Some(_), Some(permitted)) if permitted.contains(&attempt) => {}
            (Some(_), Some(_)) => return false,
            (Some(most), None) => {
                let is_full = self.running_of(executor) >= most;
                if is_full || before.executors.contains(executor) {
                    before.executors.insert(executor);
                    return false;
                }
            }
        }
        before.memory |= !self.has_memory(asks.memory);
        asks.memory == 0 || !before.memory
    }

    fn running_of(&self, executor: &str) -> u64 {
        let running = self.work.running.iter().filter_map(|it| self.asks.get(it));
        running.filter(|it| it.executor == executor).count() as u64
    }

    fn used_memory(&self) -> u64 {
        let running = self.work.running.iter().filter_map(|it| self.asks.get(it));
        running.map(|it| it.memory).fold(0, u64::saturating_add)
    }

    fn has_memory(&self, wanted: u64) -> bool {
        wanted == 0 || self.used_memory().saturating_add(wanted) <= self.memory
    }

    /// How many attempts hold a slot and how many wait, answers included.
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

    fn free(&self) -> usize {
        self.slots.saturating_sub(self.running.len())
    }

    fn begin(&mut self, place: QueueKey) -> Option<AttemptId> {
        let attempt = self.queue.remove(&place)?;
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

    fn with_slots(slots: usize) -> Admission {
        Admission::new(slots, 1, 0, false)
    }

    fn asks(executor: &str, memory: u64, max_running: Option<u64>) -> Asks {
        Asks { executor: executor.into(), memory, max_running }
    }

    fn granted(admission: &mut Admission) -> Vec<AttemptId> {
        std::iter::from_fn(|| admission.next()).collect()
    }

    #[test]
    fn who_waits_for_memory_is_passed_only_by_those_that_ask_for_none() {
        let id = ids(5);
        let mut admission = Admission::new(3, 1, 10, false);
        for (n, memory) in [(0, 6), (1, 6), (2, 1), (3, 0), (4, 4)] {
            admission.asks(id[n], asks("x", memory, None));
        }
        assert!(admission.take(id[0]));
        assert_eq!((admission.free(), admission.free_memory()), (2, 4));
        for n in [1, 2, 3] {
            assert_eq!(admission.take(id[n]), n == 3, "{n}");
            if n != 3 {
                admission.queue(id[n], Priority::Medium);
            }
        }
        assert_eq!((admission.next(), admission.free(), admission.free_memory()), (None, 1, 0));
        admission.leave(id[0]);
        assert_eq!(granted(&mut admission), [id[1], id[2]]);
        admission.leave(id[3]);
        assert!(!admission.take(id[4]), "it has a slot and no memory");
        admission.queue(id[4], Priority::Critical);
        admission.forget(id[1]);
        assert_eq!(granted(&mut admission), [id[4]]);
    }

    #[test]
    fn what_an_attempt_asks_for_last_counts_also_if_that_is_nothing() {
        let id = ids(2);
        let mut admission = Admission::new(2, 1, 10, false);
        admission.asks(id[0], asks("x", 10, Some(1)));
        admission.asks(id[0], asks("x", 0, None));
        assert!(admission.take(id[0]));
        assert_eq!(admission.free_memory(), 10);
        admission.asks(id[1], asks("x", 10, Some(1)));
        assert!(admission.take(id[1]));
    }

    #[test]
    fn an_executor_has_its_limit_and_others_pass() {
        let id = ids(4);
        let mut admission = with_slots(9);
        for (attempt, executor) in id.iter().zip(["x", "x", "x", "y"]) {
            admission.asks(*attempt, asks(executor, 0, Some(1)));
        }
        assert!(admission.take(id[0]));
        for waits in &id[1..3] {
            assert!(!admission.take(*waits));
            admission.queue(*waits, Priority::Medium);
        }
        assert!(admission.take(id[3]));
        assert_eq!((admission.next(), admission.free()), (None, 7));
        admission.leave(id[0]);
        assert_eq!(granted(&mut admission), [id[1]]);
        assert!(admission.unpermitted().is_empty(), "the host alone counts");
    }

    #[test]
    fn on_a_shared_board_a_limited_executor_needs_a_permit_for_each_turn() {
        let id = ids(3);
        let mut admission = Admission::new(2, 1, 0, true);
        for attempt in &id[..2] {
            admission.asks(*attempt, asks("x", 0, Some(1)));
            assert!(!admission.take(*attempt));
            admission.queue(*attempt, Priority::Medium);
        }
        assert!(admission.take(id[2]), "its executor has no limit");
        assert_eq!((admission.next(), admission.unpermitted()), (None, vec![id[0]]));
        // The board may have let a later one begin: the first one waits for that one's end.
        admission.permit(id[1]);
        assert_eq!(granted(&mut admission), [id[1]]);
        admission.leave(id[1]);
        assert!(!admission.take(id[1]), "the next turn asks again");
        admission.hold(true);
        assert!(admission.unpermitted().is_empty());
    }

    proptest! {
        #[test]
        fn memory_and_executors_are_never_overfilled_and_no_attempt_is_forgotten(
            memory in 3u64..9,
            asked in prop::collection::vec((0u64..4, 0usize..2), 12..13),
            steps in prop::collection::vec((0usize..12, any::<bool>()), 1..60),
        ) {
            let id = ids(12);
            let mut admission = Admission::new(4, 1, memory, false);
            for (attempt, (memory, executor)) in id.iter().zip(&asked) {
                admission.asks(*attempt, asks(["x", "y"][*executor], *memory, Some(2)));
            }
            let (mut waiting, mut running) = (HashSet::new(), HashSet::new());
            for (which, begins) in steps {
                if !begins {
                    admission.leave(id[which]);
                    waiting.remove(&which);
                    running.remove(&which);
                } else if !waiting.contains(&which) && !running.contains(&which) {
                    if admission.take(id[which]) {
                        running.insert(which);
                    } else {
                        admission.queue(id[which], Priority::Medium);
                        waiting.insert(which);
                    }
                }
                while let Some(next) = admission.next() {
                    let next = id.iter().position(|it| *it == next).unwrap();
                    prop_assert!(waiting.remove(&next));
                    running.insert(next);
                }
                let of = |executor| running.iter().filter(|it| asked[**it].1 == executor).count();
                let used: u64 = running.iter().map(|it| asked[*it].0).sum();
                prop_assert!(running.len() <= 4 && used <= memory && of(0) <= 2 && of(1) <= 2);
                prop_assert_eq!(admission.counts(), (running.len(), waiting.len()));
                // Who is alone never waits.
                prop_assert!(waiting.is_empty() || !running.is_empty());
            }
        }
    }

    #[test]
    fn the_queue_is_first_come_first_served_within_a_priority() {
        let id = ids(5);
        let mut admission = with_slots(1);
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
        let mut admission = with_slots(1);
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
        let mut admission = with_slots(3);
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
        fn slots_are_never_overfilled_and_no_attempt_is_forgotten(
            slots in 1usize..5,
            steps in prop::collection::vec((0usize..12, 0u8..3), 1..60),
        ) {
            let id = ids(12);
            let mut admission = with_slots(slots);
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

//! Attempts that no host has, and hosts that are lost. What becomes of the attempts of a lost host is
//! decided here, purely, and written by the store.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use crate::host::Demand;
use crate::ids::{AttemptId, ProcessId};
use crate::refusal::Refusal;

use super::{Attempt, Phase};

/// How often in a row an attempt is begun again because its host was lost. If the attempt itself brings its
/// hosts down, it must not go through all of them.
pub const LOSSES_MAX: u64 = 3;

/// How many attempts of an executor may run at once on all hosts of the board, by the executor's name, for
/// those with a limit.
pub type MaxRunning = BTreeMap<String, u64>;

/// What a host has free for further attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub slots: usize,
    /// In bytes; `u64::MAX` where the host does not count it.
    pub memory: u64,
}

/// An attempt that waits for a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Waiting {
    pub attempt_id: AttemptId,
    pub executor: String,
    /// Bytes that it asks for; 0: none.
    pub memory: u64,
}

/// Which of the attempts that wait for a host, in their order, get a host with this room. `left`: how many
/// more of an executor with a limit may run. Attempts that wait for memory are passed only by attempts that
/// ask for none.
pub fn chosen(waiting: Vec<Waiting>, mut room: Room, mut left: MaxRunning) -> Vec<Waiting> {
    let mut is_short = false;
    let mut fits = |it: &Waiting| {
        let mut more = left.get_mut(&it.executor);
        if room.slots == 0 || more.as_deref() == Some(&0) {
            return false;
        }
        // From the first attempt on that waits for memory, none that asks for memory passes.
        is_short |= it.memory > room.memory;
        if it.memory > 0 && is_short {
            return false;
        }
        (room.slots, room.memory) = (room.slots - 1, room.memory - it.memory);
        if let Some(more) = &mut more {
            **more -= 1;
        }
        true
    };
    waiting.into_iter().filter(|it| fits(it)).collect()
}

/// What a claim has given to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    pub attempts: Vec<AttemptId>,
    /// How long the lease of the host lasted when the claim was written. What comes later than that must
    /// not begin.
    pub lease_left: Duration,
}

/// An attempt of a host that is lost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LostAttempt {
    pub attempt_id: AttemptId,
    pub phase: Phase,
    /// The process of its newest turn.
    pub process_id: ProcessId,
    pub is_answer: bool,
    /// It is being finished, or the finish of another attempt has its worktrees on loan: only its host
    /// knows how far that is.
    pub is_finishing: bool,
    /// There is an intent to stop it.
    pub is_stopping: bool,
    /// How many of its last turns in a row were lost with their hosts.
    pub losses: u64,
}

/// What becomes of an attempt whose host is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostAttemptAction {
    /// It waits until its host is back.
    Stays,
    /// Its turn has not begun: the next host begins it.
    Moves,
    /// Its turn ended with the host: the next host begins another turn with the same prompt.
    Restarts,
    /// Its turn ended with the host, and none follows. The text says why, without a full stop.
    Ends(String),
}

impl Attempt {
    /// Whether any host may begin it. A fork needs the commits of its source's host, and an answer is given
    /// where the question was asked.
    pub fn may_wait_anywhere(&self) -> bool {
        !self.is_answer && self.fork.is_none()
    }

    /// What it asks of its host.
    pub fn demand(&self) -> Demand {
        Demand { labels: self.labels.clone(), memory: self.memory }
    }
}

impl LostAttempt {
    /// What becomes of the attempt, now that `host` is lost.
    pub fn action(&self, host: &str) -> LostAttemptAction {
        let lost = lost(host);
        if self.is_finishing || !(self.phase.is_active() || self.phase == Phase::Queued) {
            return LostAttemptAction::Stays;
        }
        if self.phase == Phase::Stopping || self.is_stopping {
            return LostAttemptAction::Ends(format!("{lost} while the attempt was being stopped"));
        }
        // The daemon of the lost host was the one that waited for the answer.
        if self.is_answer {
            return LostAttemptAction::Ends(lost);
        }
        match self.phase {
            Phase::Queued => LostAttemptAction::Moves,
            _ if self.losses + 1 < LOSSES_MAX => LostAttemptAction::Restarts,
            _ => {
                let before = self.losses;
                LostAttemptAction::Ends(format!(
                    "{lost}, as were those of the {before} turns before"
                ))
            }
        }
    }
}

/// Why a turn ended whose host was lost; also the begin of longer texts.
pub fn lost(host: &str) -> String {
    format!("host {host} was lost")
}

/// Giving attempts to hosts, and taking them from lost ones.
#[async_trait]
pub trait Placement {
    /// Waits until there may be an attempt to claim. May be cancelled without loss.
    async fn unplaced(&self);

    /// Gives this host the first attempts that no host has, if they run one of these executors and it has
    /// the labels and the room for them. Nothing if `incarnation` is not its own any more, it drains, its
    /// lease is over, or it was given up.
    ///
    /// # Errors
    /// The host may have got attempts nevertheless: the answer was lost.
    async fn claim(
        &self,
        incarnation: u64,
        executors: &[String],
        limits: &MaxRunning,
        room: Room,
    ) -> Result<Claimed, Refusal>;

    /// Lets attempts that wait on this host begin, in this order, as far as the limits of their executors
    /// allow. Returns those that may begin; from then on they count as running.
    async fn admit(
        &self,
        attempts: &[AttemptId],
        limits: &MaxRunning,
    ) -> Result<Vec<AttemptId>, Refusal>;

    /// Gives this host an attempt that no host has. `false`: another host has it by now.
    async fn claim_one(&self, attempt: AttemptId) -> Result<bool, Refusal>;

    /// Gives back claimed attempts whose turn has not begun: no host has them again.
    async fn release(&self, attempts: &[AttemptId]) -> Result<(), Refusal>;

    /// Gives up the hosts whose lease has been over for a third of its length, and gives their attempts
    /// away. Returns these hosts.
    async fn sweep(&self) -> Result<Vec<String>, Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranded(phase: Phase) -> LostAttempt {
        LostAttempt {
            attempt_id: AttemptId::new(),
            phase,
            process_id: ProcessId::new(),
            is_answer: false,
            is_finishing: false,
            is_stopping: false,
            losses: 0,
        }
    }

    fn waiting(asked: &[(&str, u64)]) -> Vec<Waiting> {
        let one = |(executor, memory): &(&str, u64)| Waiting {
            attempt_id: AttemptId::new(),
            executor: (*executor).into(),
            memory: *memory,
        };
        asked.iter().map(one).collect()
    }

    #[test]
    fn a_host_takes_what_fits_and_memory_goes_in_the_order_of_the_queue() {
        let takes = |asked: &[(&str, u64)], slots, memory, left: &[(&str, u64)]| {
            let left = left.iter().map(|(executor, left)| ((*executor).to_owned(), *left));
            let all = waiting(asked);
            let chosen = chosen(all.clone(), Room { slots, memory }, left.collect());
            let place = |it: &Waiting| all.iter().position(|other| other == it).unwrap();
            chosen.iter().map(place).collect::<Vec<_>>()
        };
        let none: &[usize] = &[];
        assert_eq!(takes(&[("x", 0), ("x", 0), ("x", 0)], 2, 0, &[]), [0, 1]);
        assert_eq!(takes(&[("x", 3), ("x", 3), ("x", 1), ("x", 0)], 9, 5, &[]), [0, 3]);
        assert_eq!(takes(&[("x", 6), ("y", 1)], 9, 5, &[]), none);
        assert_eq!(takes(&[("x", 0), ("x", 0), ("y", 0)], 9, 0, &[("x", 1)]), [0, 2]);
        // What waits for its executor keeps no memory.
        assert_eq!(takes(&[("x", 9), ("y", 1)], 9, 5, &[("x", 0), ("y", 7)]), [1]);
        assert_eq!(takes(&[("x", 0)], 0, 5, &[]), none);
    }

    proptest::proptest! {
        #[test]
        fn no_host_takes_more_than_it_has(
            asked in proptest::collection::vec((0usize..3, 0u64..5), 0..20),
            slots in 0usize..6, memory in 0u64..12, left in 0u64..4,
        ) {
            let names = ["limited", "other", "third"];
            let asked: Vec<(&str, u64)> = asked.iter().map(|(n, it)| (names[*n], *it)).collect();
            let limits = [("limited".to_owned(), left)].into();
            let all = waiting(&asked);
            let chosen = chosen(all.clone(), Room { slots, memory }, limits);
            proptest::prop_assert!(chosen.len() <= slots);
            proptest::prop_assert!(chosen.iter().map(|it| it.memory).sum::<u64>() <= memory);
            let limited = chosen.iter().filter(|it| it.executor == "limited").count();
            proptest::prop_assert!(limited as u64 <= left);
            // In their order.
            let mut rest = all.iter();
            proptest::prop_assert!(chosen.iter().all(|it| rest.any(|other| other == it)));
        }
    }

    #[test]
    fn what_waits_moves_and_what_ran_starts_over() {
        for (phase, action) in [
            (Phase::Queued, LostAttemptAction::Moves),
            (Phase::Preparing, LostAttemptAction::Restarts),
            (Phase::Running, LostAttemptAction::Restarts),
            (Phase::Idle, LostAttemptAction::Stays),
            (Phase::Settled, LostAttemptAction::Stays),
        ] {
            assert_eq!(stranded(phase).action("a"), action, "{phase:?}");
        }
    }

    #[test]
    fn what_was_stopped_or_answers_ends_and_what_is_finished_waits_for_its_host() {
        let ends = |stranded: LostAttempt| match stranded.action("a") {
            LostAttemptAction::Ends(why) => why,
            other => panic!("{other:?}"),
        };
        let why = ends(stranded(Phase::Stopping));
        assert_eq!(why, "host a was lost while the attempt was being stopped");
        assert_eq!(ends(LostAttempt { is_stopping: true, ..stranded(Phase::Running) }), why);
        let answers = LostAttempt { is_answer: true, ..stranded(Phase::Running) };
        assert_eq!(ends(answers), "host a was lost");
        for phase in [Phase::Queued, Phase::Running, Phase::Stopping] {
            let finishing = LostAttempt { is_finishing: true, ..stranded(phase) };
            assert_eq!(finishing.action("a"), LostAttemptAction::Stays);
        }
    }

    #[test]
    fn an_attempt_is_not_begun_on_host_after_host_without_end() {
        let restarts = [0, 1, 2, 9].map(|losses| {
            let stranded = LostAttempt { losses, ..stranded(Phase::Running) };
            matches!(stranded.action("a"), LostAttemptAction::Restarts)
        });
        assert_eq!(restarts, [true, true, false, false]);
        // It has not begun, so it has harmed no host.
        let waits = LostAttempt { losses: 9, ..stranded(Phase::Queued) };
        assert_eq!(waits.action("a"), LostAttemptAction::Moves);
    }
}

//! Attempts that no host has, and hosts that are lost: what becomes of their attempts is decided
//! here, purely, and written by the store.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use crate::ids::{AttemptId, ProcessId};
use crate::refusal::Refusal;

use super::{Attempt, Phase};

/// How often in a row an attempt is begun anew because its host was lost. An attempt that brings
/// its hosts down is not to go through all of them.
pub const LOSSES_MAX: u64 = 3;

/// What a claim has given to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    pub attempts: Vec<AttemptId>,
    /// How long the lease of the host lasted from then on.
    pub lease_left: Duration,
}

/// An attempt of a host that is lost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Stranded {
    pub attempt_id: AttemptId,
    pub phase: Phase,
    /// Of its newest turn.
    pub process_id: ProcessId,
    pub is_answer: bool,
    /// It is being finished, or another attempt's finish has its worktrees: how far that has come
    /// only its host knows.
    pub is_finishing: bool,
    /// A stop of it was asked for.
    pub is_stopping: bool,
    /// How many of its last turns, without another end between, were lost with their hosts.
    pub losses: u64,
}

/// What becomes of an attempt whose host is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits for its host.
    Stays,
    /// Its turn has not begun: the next host begins it.
    Moves,
    /// Its turn has ended with the host: the next host begins another one with the same prompt.
    BeginsAnew,
    /// Its turn has ended with the host. A sentence says why none follows.
    Ends(String),
}

impl Attempt {
    /// Whether any host may begin it. A fork begins from commits of its source's host, and an
    /// answer is given where it was asked for.
    pub fn may_wait_anywhere(&self) -> bool {
        !self.is_answer && self.fork.is_none()
    }
}

impl Stranded {
    /// What becomes of it, now that `host` is lost.
    pub fn fate(&self, host: &str) -> Fate {
        let lost = lost(host);
        if self.is_finishing || !(self.phase.is_active() || self.phase == Phase::Queued) {
            return Fate::Stays;
        }
        if self.phase == Phase::Stopping || self.is_stopping {
            return Fate::Ends(format!("{lost} while the attempt was being stopped"));
        }
        // The host that asked for the answer runs the answerer.
        if self.is_answer {
            return Fate::Ends(lost);
        }
        match self.phase {
            Phase::Queued => Fate::Moves,
            _ if self.losses + 1 < LOSSES_MAX => Fate::BeginsAnew,
            _ => {
                let before = self.losses;
                Fate::Ends(format!("{lost}, as were those of the {before} turns before"))
            }
        }
    }
}

/// Why a turn has ended whose host is lost.
pub fn lost(host: &str) -> String {
    format!("host {host} was lost")
}

#[async_trait]
pub trait Placement {
    /// Waits until there may be an attempt to claim. Cancel safe.
    async fn unplaced(&self);

    /// Gives this host, whose incarnation this is, the first of the attempts that no host has,
    /// that it has the labels for and whose executors are these: nothing if it drains, if its lease
    /// is over or if its attempts were given away. After an error it may have them.
    async fn claim(
        &self,
        incarnation: u64,
        executors: &[String],
        most: usize,
    ) -> Result<Claimed, Refusal>;

    /// Gives this host an attempt that no host has. `false`: another one has it by now.
    async fn claim_one(&self, attempt: AttemptId) -> Result<bool, Refusal>;

    /// Gives back claimed attempts of which nothing has begun.
    async fn release(&self, attempts: &[AttemptId]) -> Result<(), Refusal>;

    /// Gives away the attempts of the hosts that are lost: whose lease has been over for a third of
    /// its time. Returns those hosts.
    async fn sweep(&self) -> Result<Vec<String>, Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranded(phase: Phase) -> Stranded {
        Stranded {
            attempt_id: AttemptId::new(),
            phase,
            process_id: ProcessId::new(),
            is_answer: false,
            is_finishing: false,
            is_stopping: false,
            losses: 0,
        }
    }

    #[test]
    fn what_waits_moves_and_what_ran_begins_anew() {
        for (phase, fate) in [
            (Phase::Queued, Fate::Moves),
            (Phase::Preparing, Fate::BeginsAnew),
            (Phase::Running, Fate::BeginsAnew),
            (Phase::Idle, Fate::Stays),
            (Phase::Settled, Fate::Stays),
        ] {
            assert_eq!(stranded(phase).fate("a"), fate, "{phase:?}");
        }
    }

    #[test]
    fn what_was_stopped_or_answers_ends_and_what_is_finished_waits_for_its_host() {
        let ends = |stranded: Stranded| match stranded.fate("a") {
            Fate::Ends(why) => why,
            other => panic!("{other:?}"),
        };
        let why = ends(stranded(Phase::Stopping));
        assert_eq!(why, "host a was lost while the attempt was being stopped");
        assert_eq!(ends(Stranded { is_stopping: true, ..stranded(Phase::Running) }), why);
        let answers = Stranded { is_answer: true, ..stranded(Phase::Running) };
        assert_eq!(ends(answers), "host a was lost");
        for phase in [Phase::Queued, Phase::Running, Phase::Stopping] {
            let finishing = Stranded { is_finishing: true, ..stranded(phase) };
            assert_eq!(finishing.fate("a"), Fate::Stays);
        }
    }

    #[test]
    fn an_attempt_is_not_begun_on_host_after_host_without_end() {
        let fates = [0, 1, 2, 9].map(|losses| {
            let stranded = Stranded { losses, ..stranded(Phase::Running) };
            matches!(stranded.fate("a"), Fate::BeginsAnew)
        });
        assert_eq!(fates, [true, true, false, false]);
        // It has not begun, so it has harmed no host.
        let waits = Stranded { losses: 9, ..stranded(Phase::Queued) };
        assert_eq!(waits.fate("a"), Fate::Moves);
    }
}

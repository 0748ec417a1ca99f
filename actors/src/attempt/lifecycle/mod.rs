//! The life of one turn, as a pure state machine: events in, effects out.
//!
//! ```text
//!  Preparing ─prepared─▶ Spawning ─spawned─▶ Running ─exited─▶ Ended ─drained─▶ Settled
//!      │ stop                │ stop             │ stop            │ stop           │ stop
//!      ▼                     ▼                  ▼                 ▼                ▼
//!   Settled           (waits for spawned)   the ladder        kill the leftovers that the
//!                                               │              leader left behind
//!                    SIGINT ─½ grace─▶ SIGTERM ─½ grace─▶ kill the tree
//!                       │                              ▲  ▲
//!                       └─ exited ─▶ SIGTERM ─ grace ──┘  └─ force
//! ```
//!
//! An executor that lingers after its turn gets SIGTERM, then SIGKILL; what it left running
//! lives on. A turn settles when its log is read to the last byte, for the executor's own
//! report outranks its exit code; a stopped one when its tree is dead, after a moment's grace.
//! If the disk takes no record of the leader's end, the stop is answered without it. A stop
//! ends processes first and writes the row last: a failing write keeps no process alive.

use crate::journal::Phase;
use crate::process::records::{ExitRecord, StopKind};

/// The name of a protocol's own interrupt among the signals of a stop.
pub const INTERRUPT: &str = "interrupt";

#[derive(Clone, Debug, PartialEq)]
pub enum LifeEvent {
    /// A setup script runs in the worktrees: a stop waits for its end.
    SettingUp,
    Prepared,
    /// The worktrees can't be made or set up, or the process can't be started.
    NotStarted(String),
    Spawned,
    /// As the executor reported.
    TurnEnded,
    Exited(ExitRecord),
    /// The log holds everything up to the exit.
    Drained,
    /// `by_message`: its protocol has an interrupt, which is sent instead of SIGINT.
    Stop {
        force: bool,
        by_message: bool,
    },
    Timer(Timer),
    /// The tree has been killed, as far as it could be.
    Killed {
        signalled: u32,
        survivors: u32,
    },
    /// This many processes got the SIGTERM after the exit.
    Terminated(u32),
    /// The shim has ended: no descendant is left.
    TreeGone,
    /// Whether the shim waits for the disk: then no record of an end can come.
    Stalled(bool),
}

/// The timers that the machine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    Terminate,
    Kill,
    /// How long an executor may take to end after its turn …
    Linger,
    /// … and after it was asked to.
    Outstay,
    /// How long a stopped turn waits for its log.
    Drain,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Spawn,
    Enter(Phase),
    /// The protocol's own interrupt, or SIGINT to the leader's process group.
    Interrupt {
        by_message: bool,
    },
    /// End of file on stdin, after all messages.
    CloseStdin,
    Dismiss,
    KillLeader,
    /// SIGTERM to every descendant, and end of file on stdin.
    Terminate,
    KillTree,
    Drain(ExitRecord),
    Arm(Timer),
    /// The turn is over: write its outcome and free the slot.
    Settle(Ending),
    Answer(TurnStopped),
}

/// What the outcome is made from, besides the executor's own report.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    pub exit: Option<ExitRecord>,
    /// Why nothing ran.
    pub reason: Option<String>,
    pub stopped: Option<StopFacts>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopFacts {
    pub forced: bool,
    pub signals: Vec<&'static str>,
}

impl StopFacts {
    pub fn kind(&self) -> StopKind {
        if self.forced { StopKind::Forced } else { StopKind::Soft }
    }
}

/// The facts of the answer to a stop.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnStopped {
    /// This stop ended something that ran.
    pub stopped: bool,
    pub facts: StopFacts,
    pub exit: Option<ExitRecord>,
    pub survivors: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum TurnStage {
    Preparing,
    Spawning,
    Running,
    Ended { exit: ExitRecord, drained: bool },
    Settled { exit: Option<ExitRecord> },
}

/// A stop that has not been answered.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stop {
    facts: StopFacts,
    /// The leader had ended by itself when the stop came.
    late: bool,
    killing: bool,
    /// The kill is over; the number of survivors.
    survivors: Option<u32>,
    /// The log has had its grace.
    hurry: bool,
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Life {
    stage: TurnStage,
    stop: Option<Stop>,
    /// Processes of the tree may be alive.
    pub tree: bool,
    /// The shim waits for the disk.
    stalled: bool,
    /// A stop was answered with the tree dead and the record of the leader's end unwritten.
    dead: bool,
    /// A setup script runs.
    sets_up: bool,
}

impl Life {
    /// A turn whose slot has been granted.
    pub fn preparing() -> Self {
        let stage = TurnStage::Preparing;
        Self { stage, stop: None, tree: false, stalled: false, dead: false, sets_up: false }
    }

    /// A turn found running after a restart.
    pub fn running() -> Self {
        Self { stage: TurnStage::Running, tree: true, ..Self::preparing() }
    }

    /// A turn whose stop was under way when the daemon ended.
    pub fn stopping() -> Self {
        Self { stop: Some(Stop { survivors: Some(0), ..Stop::default() }), ..Self::running() }
    }

    /// Its process has not been started, nor is being started.
    pub fn is_preparing(&self) -> bool {
        self.stage == TurnStage::Preparing
    }

    /// Its process turns out to have been started.
    pub fn find_started(&mut self) {
        if self.stage == TurnStage::Preparing {
            self.stage = TurnStage::Spawning;
        }
        self.tree = true;
    }

    /// A settled turn whose leftovers are alive.
    pub fn settled() -> Self {
        Self { stage: TurnStage::Settled { exit: None }, tree: true, ..Self::preparing() }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, TurnStage::Settled { .. }) && !self.tree && self.stop.is_none()
    }

    /// Its tree was killed; the record of the leader's end is still to come.
    pub fn is_dead(&self) -> bool {
        self.dead && self.stage == TurnStage::Running
    }

    /// How the stop under way has proceeded so far.
    pub fn stop_facts(&self) -> Option<StopFacts> {
        self.stop.as_ref().filter(|stop| !stop.late).map(|stop| stop.facts.clone())
    }

    /// Takes one step. Inputs that come too late, twice or out of turn change nothing.
    pub fn step(&mut self, input: LifeEvent) -> Vec<Effect> {
        match (input, &mut self.stage) {
            (LifeEvent::SettingUp, TurnStage::Preparing) => {
                self.sets_up = true;
                vec![]
            }
            // The setup ended well just before the stop.
            (LifeEvent::Prepared, TurnStage::Preparing) if self.stop.is_some() => {
                self.settle(None, None)
            }
            (LifeEvent::Prepared, TurnStage::Preparing) => {
                self.stage = TurnStage::Spawning;
                vec![Effect::Spawn]
            }
            (LifeEvent::NotStarted(reason), TurnStage::Preparing | TurnStage::Spawning) => {
                self.settle(None, Some(reason))
            }
            (LifeEvent::Spawned, TurnStage::Spawning) => self.spawned(),
            (LifeEvent::TurnEnded, TurnStage::Running) => {
                // During a stop its ladder goes on.
                let arm = self.stop.is_none().then_some(Effect::Arm(Timer::Linger));
                [Effect::CloseStdin].into_iter().chain(arm).collect()
            }
            (LifeEvent::Exited(exit), TurnStage::Spawning | TurnStage::Running) => {
                self.exited(exit)
            }
            // Settled by an earlier daemon: the log may be the last to know.
            (LifeEvent::Exited(exit), TurnStage::Settled { .. }) => vec![Effect::Drain(exit)],
            (LifeEvent::Drained, stage) => {
                if let TurnStage::Ended { drained, .. } = stage {
                    *drained = true;
                }
                self.settle_when_ready()
            }
            (LifeEvent::Stop { force, by_message }, _) => self.stop(force, by_message),
            (LifeEvent::Timer(timer), _) => self.timer(timer),
            (LifeEvent::Killed { signalled, survivors }, _) => self.killed(signalled, survivors),
            (LifeEvent::Terminated(count), _) => {
                if let Some(stop) = self.stop.as_mut().filter(|_| count > 0)
                    && stop.facts.signals.last() != Some(&"SIGTERM")
                {
                    stop.facts.signals.push("SIGTERM");
                }
                vec![]
            }
            (LifeEvent::TreeGone, _) => self.tree_gone(),
            (LifeEvent::Stalled(is_stalled), _) => {
                self.stalled = is_stalled;
                self.answer_unsettled()
            }
            _ => vec![],
        }
    }

    fn spawned(&mut self) -> Vec<Effect> {
        (self.stage, self.tree) = (TurnStage::Running, true);
        let mut effects = vec![Effect::Enter(Phase::Running)];
        if let Some(stop) = self.stop.take() {
            effects.extend(self.stop(stop.facts.forced, false));
        }
        effects
    }

    fn exited(&mut self, exit: ExitRecord) -> Vec<Effect> {
        self.stage = TurnStage::Ended { exit: exit.clone(), drained: false };
        let mut effects = vec![Effect::Drain(exit)];
        if let Some(stop) = &self.stop {
            effects.push(Effect::Arm(Timer::Drain));
            // Its descendants have the rest of the grace.
            if !stop.killing && stop.survivors.is_none() {
                effects.push(Effect::Terminate);
            }
        }
        effects
    }

    fn stop(&mut self, force: bool, by_message: bool) -> Vec<Effect> {
        let asked_before = self.stop.is_some();
        let stop = self.stop.get_or_insert_default();
        stop.facts.forced |= force;
        if stop.killing {
            return vec![];
        }
        match &self.stage {
            // The task that runs the setup hears of the stop, and ends it.
            TurnStage::Preparing if self.sets_up => {
                let signal = if force { "SIGKILL" } else { "SIGTERM" };
                if stop.facts.signals.last() != Some(&signal) {
                    stop.facts.signals.push(signal);
                }
                vec![]
            }
            TurnStage::Preparing => self.settle(None, None),
            TurnStage::Spawning => vec![],
            TurnStage::Running if self.dead => {
                stop.late = true;
                self.answer(0)
            }
            TurnStage::Running if force => {
                stop.killing = true;
                let enter = (!asked_before).then_some(Effect::Enter(Phase::Stopping));
                [Effect::KillTree].into_iter().chain(enter).collect()
            }
            TurnStage::Ended { .. } if force && asked_before && stop.survivors.is_none() => {
                stop.killing = true;
                vec![Effect::KillTree]
            }
            TurnStage::Running | TurnStage::Ended { .. } if asked_before => vec![],
            TurnStage::Running => {
                stop.facts.signals.push(if by_message { INTERRUPT } else { "SIGINT" });
                vec![
                    Effect::Interrupt { by_message },
                    Effect::Arm(Timer::Terminate),
                    Effect::Arm(Timer::Kill),
                    Effect::Enter(Phase::Stopping),
                ]
            }
            TurnStage::Settled { .. } if !self.tree => {
                stop.late = true;
                self.answer(0)
            }
            TurnStage::Ended { .. } | TurnStage::Settled { .. } => {
                stop.late = true;
                stop.killing = true;
                vec![Effect::KillTree, Effect::Arm(Timer::Drain)]
            }
        }
    }

    fn timer(&mut self, timer: Timer) -> Vec<Effect> {
        let (has_grace, is_running) = (self.has_grace(), self.stage == TurnStage::Running);
        match (timer, &mut self.stop) {
            (Timer::Linger, None) if is_running => {
                vec![Effect::Dismiss, Effect::Arm(Timer::Outstay)]
            }
            (Timer::Outstay, None) if is_running => vec![Effect::KillLeader],
            (Timer::Terminate, Some(stop)) if is_running && !stop.killing => {
                stop.facts.signals.push("SIGTERM");
                vec![Effect::Terminate]
            }
            (Timer::Kill, Some(stop)) if has_grace => {
                stop.killing = true;
                vec![Effect::KillTree]
            }
            (Timer::Drain, Some(stop)) => {
                stop.hurry = true;
                if is_running { self.answer_unsettled() } else { self.settle_when_ready() }
            }
            _ => vec![],
        }
    }

    /// A soft stop has not killed the processes yet.
    fn has_grace(&self) -> bool {
        let waits = |stop: &Stop| !stop.killing && !stop.late && stop.survivors.is_none();
        matches!(self.stage, TurnStage::Running | TurnStage::Ended { .. })
            && self.stop.as_ref().is_some_and(waits)
    }

    fn killed(&mut self, signalled: u32, survivors: u32) -> Vec<Effect> {
        let Some(stop) = &mut self.stop else { return vec![] };
        if signalled > 0 {
            stop.facts.signals.push("SIGKILL");
        }
        stop.killing = false;
        stop.survivors = Some(survivors);
        match &self.stage {
            // Perhaps the leader; its end may still be on its way here.
            TurnStage::Running if survivors > 0 => vec![Effect::Arm(Timer::Drain)],
            TurnStage::Running => self.answer_unsettled(),
            TurnStage::Settled { .. } => self.answer(survivors),
            _ => self.settle_when_ready(),
        }
    }

    /// A shim that has ended answers no pending kill; its tree needs none.
    fn tree_gone(&mut self) -> Vec<Effect> {
        self.tree = false;
        let is_killing = self.stop.as_ref().is_some_and(|stop| stop.killing);
        let has_ended = matches!(self.stage, TurnStage::Ended { .. });
        if is_killing || (has_ended && self.has_grace()) { self.killed(0, 0) } else { vec![] }
    }

    /// Answers a stop without a report of the leader's end: it can't be killed
    /// (uninterruptible sleep), and another stop may try again; or it is dead, and there
    /// is no room for the record of its end.
    fn answer_unsettled(&mut self) -> Vec<Effect> {
        let Some(stop) = self.stop.as_ref().filter(|_| self.stage == TurnStage::Running) else {
            return vec![];
        };
        match stop.survivors {
            Some(0) if self.stalled => {
                self.dead = true;
                self.answer(0)
            }
            Some(survivors) if survivors > 0 && stop.hurry => self.answer(survivors),
            _ => vec![],
        }
    }

    fn settle_when_ready(&mut self) -> Vec<Effect> {
        let TurnStage::Ended { exit, drained } = &self.stage else { return vec![] };
        let ready = match &self.stop {
            None => *drained,
            Some(stop) => stop.survivors.is_some() && (*drained || stop.hurry),
        };
        if !ready {
            return vec![];
        }
        let exit = exit.clone();
        self.settle(Some(exit), None)
    }

    fn settle(&mut self, exit: Option<ExitRecord>, reason: Option<String>) -> Vec<Effect> {
        self.stage = TurnStage::Settled { exit: exit.clone() };
        let mut effects = vec![Effect::Settle(Ending { exit, reason, stopped: self.stop_facts() })];
        if let Some(stop) = &self.stop {
            effects.extend(self.answer(stop.survivors.unwrap_or(0)));
        }
        effects
    }

    fn answer(&mut self, survivors: u32) -> Vec<Effect> {
        let Some(stop) = self.stop.take() else { return vec![] };
        let (ended, exit) = match &self.stage {
            TurnStage::Settled { exit } => (true, exit.clone()),
            _ => (self.dead, None),
        };
        let stopped = ended && !stop.late;
        vec![Effect::Answer(TurnStopped { stopped, facts: stop.facts, exit, survivors })]
    }
}

#[cfg(test)]
mod tests;

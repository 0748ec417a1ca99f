//! The life of one turn, as a pure state machine: events in, effects out. The actor gives it the
//! events (`state.rs`), the turn carries out the effects (`turn.rs`).
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
//! * An executor that lingers after its turn gets SIGTERM, then SIGKILL; what it started lives on.
//! * A turn settles when its log is read to the last byte, because the executor's own report outranks
//!   its exit code. A stopped turn settles when its tree is dead and its log has had a moment.
//! * If the disk takes no record of the leader's end, a stop is answered without that record.
//! * A stop during a setup is answered when the setup's script has ended; the task of the setup ends it.
//! * A stop ends processes first and writes the row last: a failing write keeps no process alive.

use crate::journal::Phase;
use crate::process::records::{ExitRecord, StopKind};

/// The name of a protocol's own interrupt among the signals of a stop.
pub const INTERRUPT: &str = "interrupt";

/// What happens to a turn. One that does not fit the turn's stage changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum LifeEvent {
    /// A setup script runs in the worktrees: a stop waits for its end.
    SettingUp,
    /// The worktrees are made and set up.
    Prepared,
    /// The worktrees can't be made or set up, or the process can't be started.
    NotStarted(String),
    /// The shim has reported that the executor runs.
    Spawned,
    /// The executor has reported the end of its turn. Its process still runs.
    TurnEnded,
    /// The leader has ended. Processes that it started may be alive.
    Exited(ExitRecord),
    /// The log holds everything up to the exit.
    Drained,
    /// A client stops the turn, or a later turn needs it to end. `by_message`: the executor's protocol
    /// has an interrupt, which is sent instead of SIGINT.
    Stop { force: bool, by_message: bool },
    /// A timer that was armed before; it is never cancelled.
    Timer(Timer),
    /// The tree has been killed as far as possible: how many processes got a signal, and how many live
    /// on.
    Killed { signalled: u32, survivors: u32 },
    /// So many processes got SIGTERM from [`Effect::Terminate`].
    Terminated(u32),
    /// The shim has ended, so no process of the tree is left.
    TreeGone,
    /// Whether the shim waits for the disk. While it does, no record of the leader's end can come.
    Stalled(bool),
}

/// The timers that the machine asks for. `Turn::arm` says how long each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// After half of `stop_grace`: SIGTERM.
    Terminate,
    /// After `stop_grace`: the tree is killed.
    Kill,
    /// How long an executor may take to end after its turn (10 s).
    Linger,
    /// How long it may take after the SIGTERM that follows (5 s).
    Outstay,
    /// How long a stopped turn waits for its log (250 ms).
    Drain,
}

/// What is to be done, in this order. [`Effect::Enter`], [`Effect::Settle`] and [`Effect::Answer`]
/// concern the attempt, the others the turn's process.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start the process.
    Spawn,
    /// The attempt is in this phase now.
    Enter(Phase),
    /// The protocol's own interrupt, or SIGINT to the leader's process group.
    Interrupt { by_message: bool },
    /// End of file on stdin, after all messages.
    CloseStdin,
    /// SIGTERM to the leader's process group, which lingers after its turn.
    Dismiss,
    /// SIGKILL to it.
    KillLeader,
    /// SIGTERM to every process of the tree, and end of file on stdin.
    Terminate,
    /// Kill every process of the tree; the answer is [`LifeEvent::Killed`].
    KillTree,
    /// Read the log to the lengths that the record has, and close it; the answer is
    /// [`LifeEvent::Drained`].
    Drain(ExitRecord),
    /// Send the timer's event after its time.
    Arm(Timer),
    /// The turn is over: write its outcome and free the slot.
    Settle(Ending),
    /// Answer the stop under way.
    Answer(TurnStopped),
}

/// What the outcome is made from, beside the executor's own report.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// How the leader ended; `None`: nothing was started.
    pub exit: Option<ExitRecord>,
    /// Why nothing was started, if a failure is the reason.
    pub reason: Option<String>,
    /// The stop under way; `None` also for a stop that came after the leader's own end.
    pub stopped: Option<StopFacts>,
}

/// What the calls that stop a turn have asked for and done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopFacts {
    /// One of them asked for force.
    pub forced: bool,
    /// In the order in which they were sent: [`INTERRUPT`], `SIGINT`, `SIGTERM`, `SIGKILL`.
    pub signals: Vec<&'static str>,
}

impl StopFacts {
    /// As the shim records it in the record of the leader's end.
    pub fn kind(&self) -> StopKind {
        if self.forced { StopKind::Forced } else { StopKind::Soft }
    }
}

/// What one turn answers to a stop.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnStopped {
    /// This stop ended something that ran.
    pub stopped: bool,
    pub facts: StopFacts,
    /// `None`: nothing was started, or how the leader ended is not known yet.
    pub exit: Option<ExitRecord>,
    /// How many processes lived through the kill.
    pub survivors: u32,
}

/// Where a turn is. `drained`: the log holds everything up to the exit.
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
    /// The leader had ended before the stop came: the stop has not ended the turn.
    late: bool,
    /// A kill of the tree is under way; its answer is still to come.
    killing: bool,
    /// The kill has ended, and so many processes live on.
    survivors: Option<u32>,
    /// [`Timer::Drain`] is over: the answer waits for the log no longer.
    hurry: bool,
}

/// One turn: its stage, the stop under way, and what is known of its processes.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Life {
    stage: TurnStage,
    stop: Option<Stop>,
    /// Processes of the tree may be alive.
    pub tree: bool,
    /// The shim waits for the disk.
    stalled: bool,
    /// A stop was answered while the tree was dead and the disk took no record of the leader's end.
    dead: bool,
    /// A setup script runs, or ran in this preparation.
    sets_up: bool,
}

impl Life {
    /// A turn whose slot has been granted, and of which nothing runs.
    pub fn preparing() -> Self {
        let stage = TurnStage::Preparing;
        Self { stage, stop: None, tree: false, stalled: false, dead: false, sets_up: false }
    }

    /// A turn found running after a restart.
    pub fn running() -> Self {
        Self { stage: TurnStage::Running, tree: true, ..Self::preparing() }
    }

    /// A turn whose stop was under way when the daemon ended, and whose tree is dead: the end of the leader,
    /// which is still to be fed in, counts as the stop's.
    pub fn stopping() -> Self {
        Self { stop: Some(Stop { survivors: Some(0), ..Stop::default() }), ..Self::running() }
    }

    /// Its process neither runs nor is being started.
    pub fn is_preparing(&self) -> bool {
        self.stage == TurnStage::Preparing
    }

    /// The disk shows that its process was started, which this daemon did not see.
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

    /// It has settled, nothing of it is alive, and no stop waits for it.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, TurnStage::Settled { .. }) && !self.tree && self.stop.is_none()
    }

    /// A stop was answered for a dead tree; the record of the leader's end is still to come.
    pub fn is_dead(&self) -> bool {
        self.dead && self.stage == TurnStage::Running
    }

    /// What the stop under way has asked for and done. `None` also for one that came after the leader's end.
    pub fn stop_facts(&self) -> Option<StopFacts> {
        self.stop.as_ref().filter(|stop| !stop.late).map(|stop| stop.facts.clone())
    }

    /// Takes one step. An event that comes too late, twice or out of order has no effects.
    pub fn step(&mut self, input: LifeEvent) -> Vec<Effect> {
        match (input, &mut self.stage) {
            (LifeEvent::SettingUp, TurnStage::Preparing) => {
                self.sets_up = true;
                vec![]
            }
            // The setup ended well just before the stop could end it.
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
                // During a stop the timers of the stop decide instead.
                let arm = self.stop.is_none().then_some(Effect::Arm(Timer::Linger));
                [Effect::CloseStdin].into_iter().chain(arm).collect()
            }
            (LifeEvent::Exited(exit), TurnStage::Spawning | TurnStage::Running) => {
                self.exited(exit)
            }
            // An earlier daemon has settled the turn and died before it read the log to the end.
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

    /// The process runs. A stop that waited for this begins its ladder now, with a signal.
    fn spawned(&mut self) -> Vec<Effect> {
        (self.stage, self.tree) = (TurnStage::Running, true);
        let mut effects = vec![Effect::Enter(Phase::Running)];
        if let Some(stop) = self.stop.take() {
            effects.extend(self.stop(stop.facts.forced, false));
        }
        effects
    }

    /// The leader has ended. During a stop, what it started gets SIGTERM and the rest of the grace.
    fn exited(&mut self, exit: ExitRecord) -> Vec<Effect> {
        self.stage = TurnStage::Ended { exit: exit.clone(), drained: false };
        let mut effects = vec![Effect::Drain(exit)];
        if let Some(stop) = &self.stop {
            effects.push(Effect::Arm(Timer::Drain));
            // They have the rest of the grace, which `Timer::Kill` ends.
            if !stop.killing && stop.survivors.is_none() {
                effects.push(Effect::Terminate);
            }
        }
        effects
    }

    /// A stop, by the stage in which it comes. A second soft stop changes nothing; a second one by force
    /// ends the grace of the first.
    fn stop(&mut self, force: bool, by_message: bool) -> Vec<Effect> {
        let asked_before = self.stop.is_some();
        let stop = self.stop.get_or_insert_default();
        stop.facts.forced |= force;
        if stop.killing {
            return vec![];
        }
        match &self.stage {
            // The task of the setup ends the script, and reports the end.
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

    /// A timer is over. It has an effect only in the state that it was armed for: timers are never cancelled.
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

    /// A soft stop is under way that has not killed the tree yet.
    fn has_grace(&self) -> bool {
        let waits = |stop: &Stop| !stop.killing && !stop.late && stop.survivors.is_none();
        matches!(self.stage, TurnStage::Running | TurnStage::Ended { .. })
            && self.stop.as_ref().is_some_and(waits)
    }

    /// A kill of the tree has ended.
    fn killed(&mut self, signalled: u32, survivors: u32) -> Vec<Effect> {
        let Some(stop) = &mut self.stop else { return vec![] };
        if signalled > 0 {
            stop.facts.signals.push("SIGKILL");
        }
        stop.killing = false;
        stop.survivors = Some(survivors);
        match &self.stage {
            // The leader may be one of them, or the report of its end may still be on its way.
            TurnStage::Running if survivors > 0 => vec![Effect::Arm(Timer::Drain)],
            TurnStage::Running => self.answer_unsettled(),
            TurnStage::Settled { .. } => self.answer(survivors),
            _ => self.settle_when_ready(),
        }
    }

    /// The tree is empty. A shim that has ended answers no kill any more, so this answers a kill that is
    /// pending, and spares one that is still to come.
    fn tree_gone(&mut self) -> Vec<Effect> {
        self.tree = false;
        let is_killing = self.stop.as_ref().is_some_and(|stop| stop.killing);
        let has_ended = matches!(self.stage, TurnStage::Ended { .. });
        if is_killing || (has_ended && self.has_grace()) { self.killed(0, 0) } else { vec![] }
    }

    /// Answers a stop without a report of the leader's end, in two cases: the leader can't be killed
    /// (uninterruptible sleep), so another stop may try again; or the tree is dead, and the disk has no room
    /// for the record of the leader's end.
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

    /// Settles a turn whose leader has ended: without a stop once the log is read, with a stop also once the
    /// kill has ended and the log has had its time.
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

    /// Settles the turn, and then answers the stop under way: the answer comes after the outcome.
    fn settle(&mut self, exit: Option<ExitRecord>, reason: Option<String>) -> Vec<Effect> {
        self.stage = TurnStage::Settled { exit: exit.clone() };
        let mut effects = vec![Effect::Settle(Ending { exit, reason, stopped: self.stop_facts() })];
        if let Some(stop) = &self.stop {
            effects.extend(self.answer(stop.survivors.unwrap_or(0)));
        }
        effects
    }

    /// Ends the stop under way with an answer.
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

//! The state of an attempt's actor: its row as the actor knows it, its turns, and the tasks that run.
//! The phases of an attempt, and what moves it from one to the next:
//!
//! ```text
//!          slot granted            process runs           stop             exit, log read
//!  Queued ──────────────▶ Preparing ──────────▶ Running ────────▶ Stopping ──────────────▶ Settled
//!     │                       │                    └──── exit, log read ─────────────────▶ Settled
//!     │                       └──── not started, or a stop ──────────────────────────────▶ Settled
//!     ├─ stop, after a turn has ended ────────────▶ Settled
//!     └─ stop, before any turn has ended ─────────▶ Idle
//!
//!  Settled, Idle ── a turn begins ──▶ Preparing if it has a slot, else Queued
//! ```
//!
//! Each phase is that of the attempt's newest turn ([`super::lifecycle`]); a process that an older turn
//! left running changes no phase.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ractor::ActorRef;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::blocking::lock;
use crate::event::{ProcessStatus, Timestamp};
use crate::executor::OnQuota;
use crate::ids::{FinishId, ProcessId, QueueId};
use crate::journal::{Attempt, Change, FollowUp, Next, Outcome, Phase, Process, State};
use crate::log::AttemptLog;
use crate::process::{Adopted, Shim};
use crate::refusal::Refusal;
use crate::retry::{Backoff, PAUSE};
use crate::task::spawn;
use crate::world::World;

use super::finish::finishing::Finishing;
use super::lifecycle::{Effect, Ending, Life, LifeEvent};
use super::message::{DiskWriter, LoanFn, TurnEvent, TurnHandle};
use super::pending_stops::PendingStops;
use super::provision::preview::Previewing;
use super::queue::Queue;
use super::turn::Turn;
use super::{Arguments, AttemptEvent, AttemptMessage, Begin, outcome, snapshot, start};

/// All that the actor of one attempt knows. Only its `handle` changes it, one message after the other.
pub struct AttemptActorState {
    pub(super) myself: ActorRef<AttemptMessage>,
    events: Box<dyn Fn(AttemptEvent) + Send + Sync>,
    pub(super) world: Arc<World>,
    /// The attempt as its row is, or will be once `unwritten` is written. `process` is the newest one.
    pub(super) attempt: Attempt,
    /// Changes that the row does not have yet, in order. Outcomes wait in their turns instead.
    pub(super) unwritten: VecDeque<(ProcessId, Change)>,
    /// Why the store refused the last write. While this is set a retry is due, and nothing is written
    /// before it.
    pub(super) refused: Option<Refusal>,
    /// The pauses between these retries. A write that succeeds resets them.
    pub(super) backoff: Backoff,
    /// Decides which turn is next. A step is taken on a copy, which replaces this once the store has
    /// taken the step; a stop alone steps this one directly.
    pub(super) queue: Queue,
    /// Whoever holds this may change the files of the worktrees, or rely on them. The actor never waits
    /// for it: its tasks do, first come, first served.
    ///
    /// | who | from, to |
    /// |---|---|
    /// | a turn | its preparation, from the snapshot of the turn before to the end of the setup |
    /// | a snapshot | while it is made |
    /// | a finish | from its beginning to its end |
    /// | a loan | from the grant until the other attempt's finish drops it |
    /// | a collection | while the worktrees are examined and cleaned up |
    /// | a restoration | while the worktrees are made |
    /// | a dev server | only while it is started |
    ///
    /// A turn's process runs without it: the phase keeps finishes, loans and collections away then. It is
    /// the first in the order of locks (ARCHITECTURE.md, "Owners").
    pub(super) worktrees: Arc<Mutex<()>>,
    /// The turns of which something may be alive, oldest first. Only the last one may be unsettled.
    pub(super) turns: Vec<Turn>,
    /// The stops that have not been answered.
    pub(super) stops: PendingStops,
    /// Why each writer waits for the disk. Clients see the first reason.
    pub(super) disk_waits: BTreeMap<(ProcessId, DiskWriter), String>,
    /// How many collections examine the worktrees.
    pub(super) collecting: usize,
    /// The finish that this actor carries out: its own attempt's, or one of another host's attempt.
    pub(super) finishing: Option<Finishing>,
    /// The newest finish of another host's attempt that this actor refuses. It runs beside
    /// `finishing`, for it touches no worktree.
    pub(super) refusing: Option<Finishing>,
    /// Asks for the worktrees of another attempt, on loan.
    pub(super) lend: LoanFn,
    /// How many finishes of other attempts have this attempt's worktrees, or wait for them.
    pub(super) lent: usize,
    /// The lock of the worktrees, kept since a restart for the finish of another attempt that had them
    /// before.
    pub(super) reserved: Option<(FinishId, OwnedMutexGuard<()>)>,
    /// The dev server, if one is alive.
    pub(super) previewing: Option<Previewing>,
    /// How many tasks make the snapshot of the last turn, or look whether it is due. The actor does not end
    /// before them.
    pub(super) snapshots: usize,
    /// How many tasks make the worktrees again. The actor does not end before them either.
    pub(super) restoring: usize,
}

impl AttemptActorState {
    /// Builds the state, and continues what an earlier owner of the attempt left.
    pub fn begin(myself: ActorRef<AttemptMessage>, arguments: Arguments) -> Self {
        let Arguments { attempt, begin, world, lend, events } = arguments;
        let phase = attempt.phase;
        let is_active = phase.is_active() || phase == Phase::Queued;
        let queue = Queue::new(is_active, attempt.waiting.clone(), attempt.held);
        let mut state = Self {
            myself,
            events,
            world,
            attempt,
            unwritten: VecDeque::new(),
            refused: None,
            backoff: Backoff::default(),
            queue,
            worktrees: Arc::default(),
            turns: Vec::new(),
            stops: PendingStops::default(),
            disk_waits: BTreeMap::new(),
            collecting: 0,
            finishing: None,
            refusing: None,
            lend,
            lent: 0,
            reserved: None,
            previewing: None,
            snapshots: 0,
            restoring: 0,
        };
        // The finish and the loan take their place in the queue for the worktrees before any turn, so that no
        // turn changes the files meanwhile. The dev server takes no lock.
        state.resume_finish();
        state.reserve();
        state.resume_preview();
        if state.attempt.snapshot_due {
            state.take_snapshot();
        }
        // These are in memory only: an actor that failed may have left such a report behind.
        state.world.journal.waits_for_disk(state.attempt.attempt_id, None);
        state.world.journal.waits_for(state.attempt.attempt_id, None);
        for process in state.attempt.leftovers.clone() {
            state.take_turn(process, Life::settled()).find();
        }
        let newest = state.attempt.process.clone();
        match (begin, phase) {
            (_, Phase::Queued | Phase::Settled | Phase::Idle) => {}
            (Begin::New, _) => state.take_turn(newest, Life::preparing()).prepare(),
            (Begin::Resume, Phase::Preparing) => state.take_turn(newest, Life::preparing()).find(),
            (Begin::Resume, Phase::Running | Phase::Stopping) => {
                state.take_turn(newest, Life::running()).find();
            }
        }
        state
    }

    /// Adds a turn, and nothing more: the caller prepares or finds its process. What runs already
    /// (`earlier`) is read before, so the new turn is not part of it.
    fn take_turn(&mut self, process: Process, life: Life) -> &mut Turn {
        let handle = TurnHandle { actor: self.myself.clone(), process: process.process_id };
        let attempt = Attempt { process, ..self.attempt.clone() };
        let (world, worktrees) = (Arc::clone(&self.world), Arc::clone(&self.worktrees));
        let earlier = self.earlier();
        self.turns.push(Turn::new(handle, world, attempt, worktrees, life, earlier));
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    /// The turn of this process. `None` once nothing of it is alive.
    pub(super) fn turn(&mut self, process: ProcessId) -> Option<&mut Turn> {
        self.turns.iter_mut().find(|turn| turn.handle.process == process)
    }

    /// The turn that follows the newest one with this prompt, not written down yet.
    pub(super) fn next(&self, follow_up: FollowUp, has_slot: bool) -> Next {
        let last = &self.attempt.process;
        // A turn that never began leaves its number to the next one.
        let is_new = last.status != ProcessStatus::Planned;
        let process = Process {
            process_id: ProcessId::new(),
            turn: last.turn + u32::from(is_new),
            prompt: follow_up.prompt,
            variant: follow_up.variant.or_else(|| last.variant.clone()),
            queue_id: Some(follow_up.queue_id),
            status: ProcessStatus::Planned,
            exit_code: None,
            exit_signal: None,
            ..last.clone()
        };
        Next { process, has_slot }
    }

    /// The turn that replaces one that has failed because its executor no longer knew the session: the
    /// same prompt in a new session. `None`: this turn has not failed so.
    pub(super) fn replace_lost(&mut self, process: ProcessId, outcome: &Outcome) -> Option<Next> {
        let turn = self.turn(process).filter(|_| outcome.status == ProcessStatus::Failed)?;
        if !turn.lost_its_session() {
            return None;
        }
        let mut next = self.next(self.prompt_again(), true);
        next.process.executor_session_id = None;
        Some(next)
    }

    /// The newest turn's prompt as a follow-up, to run it once more.
    pub(super) fn prompt_again(&self) -> FollowUp {
        let Process { prompt, variant, queue_id, .. } = self.attempt.process.clone();
        // The prompt of the attempt's start has no follow-up.
        let queue_id = queue_id.unwrap_or_else(QueueId::new);
        FollowUp { queue_id, prompt, variant, queued_at: Timestamp::now() }
    }

    /// Begins a turn that the store has written down: prepares it, or asks the gateway for its slot. The
    /// epoch grows here as it did in the row.
    pub(super) fn go_on(&mut self, next: Next) {
        self.attempt.epoch += 1;
        (self.attempt.phase, self.attempt.state) = next.state();
        self.attempt.process = next.process.clone();
        if next.has_slot {
            self.take_turn(next.process, Life::preparing()).prepare();
        } else {
            self.notify(AttemptEvent::SlotWanted(self.attempt.attempt_id, self.attempt.priority));
        }
    }

    /// The queued turn has its slot. Without a queued turn, a stop was faster and has freed the slot.
    pub async fn granted(&mut self) {
        if self.attempt.phase != Phase::Queued {
            return;
        }
        (self.attempt.phase, self.attempt.state) = (Phase::Preparing, State::Running);
        let process = self.attempt.process.clone();
        // If the write fails the turn runs all the same, and the daemon after a restart would queue it again.
        self.advance(process.process_id, Change::Preparing).await;
        self.take_turn(process, Life::preparing()).prepare();
    }

    /// Handles what a task of a turn reports. An event of a turn that is closed changes nothing.
    pub async fn happened(&mut self, process: ProcessId, event: TurnEvent) {
        match event {
            TurnEvent::Life(input) => self.step(process, input).await,
            TurnEvent::Started(shim, log) => self.started(process, *shim, log).await,
            TurnEvent::Found(found, log, has_script) => {
                if has_script {
                    // From here on a stop waits for the end of the script.
                    self.with(process, |turn| drop(turn.life.step(LifeEvent::SettingUp)));
                }
                self.found(process, *found, log).await;
            }
            TurnEvent::Rescued(found) => match *found {
                Adopted::Live(shim) => {
                    tracing::warn!(%process, "a shim was killed; another one takes over");
                    self.with(process, |turn| turn.connect(shim));
                }
                Adopted::Ended(exit) => self.ended(process, LifeEvent::Exited(exit)).await,
                Adopted::NeverStarted | Adopted::Lost { .. } => {}
            },
            // A process that an older turn left running says nothing about the conversation any more.
            TurnEvent::WaitsFor(what) if process == self.attempt.process.process_id => {
                self.world.journal.waits_for(self.attempt.attempt_id, what);
            }
            TurnEvent::ExecutorSession(id) if process == self.attempt.process.process_id => {
                self.attempt.process.executor_session_id.clone_from(&id);
                self.advance(process, Change::ExecutorSession(id)).await;
            }
            TurnEvent::ExecutorSession(_) | TurnEvent::WaitsFor(_) => {}
            TurnEvent::Asked(request, done) => self.asked(process, request, done).await,
            TurnEvent::Withdrawn(key, done) => self.withdrawn(process, key, done).await,
            TurnEvent::Trusted(key, done) => self.trusted(process, key, done).await,
            TurnEvent::Expired(approval, timeout) => {
                self.expired(process, approval, timeout).await;
            }
            TurnEvent::Decided(approval) => self.go_on_with(process, &approval),
            TurnEvent::EndLessConfined(earlier) => self.end_earlier(earlier).await,
            TurnEvent::ShimClosed => self.with(process, Turn::shim_closed),
            TurnEvent::KillTree(tries) => self.with(process, |turn| turn.kill_tree(tries)),
            TurnEvent::KillUnfound => self.with(process, Turn::kill_unfound),
            TurnEvent::KilledUnfound(survivors) => self.killed_unfound(process, survivors),
            TurnEvent::ReadOut => self.with(process, |turn| turn.reading = false),
            TurnEvent::Disk(writer, reason) => {
                let is_stalled = reason.is_some();
                self.disk(process, writer, reason);
                if writer == DiskWriter::Spool {
                    self.step(process, LifeEvent::Stalled(is_stalled)).await;
                }
            }
        }
    }

    /// Does something with a turn, unless it is closed.
    pub(super) fn with(&mut self, process: ProcessId, act: impl FnOnce(&mut Turn)) {
        if let Some(turn) = self.turn(process) {
            act(turn);
        }
    }

    /// Sends a turn's event to the actor once more, after a pause.
    pub(super) fn again(
        &mut self,
        process: ProcessId,
        event: impl FnOnce() -> TurnEvent + Send + 'static,
    ) {
        self.with(process, |turn| turn.handle.send_after(PAUSE, event));
    }

    /// Gives an event to the turn's state machine, and carries out the effects in their order: here those
    /// that change the attempt's row or answer a caller, and in the turn those that concern its process.
    pub(super) async fn step(&mut self, process: ProcessId, input: LifeEvent) {
        let effects = self.turn(process).map(|turn| turn.life.step(input)).unwrap_or_default();
        for effect in effects {
            match effect {
                Effect::Enter(phase) => {
                    self.attempt.phase = phase;
                    if phase == Phase::Stopping {
                        self.advance(process, Change::Stopping).await;
                    }
                }
                Effect::Settle(ending) => self.settle(process, &ending).await,
                Effect::Answer(stopped) => self.stopped(process, stopped),
                effect => self.with(process, |turn| turn.perform(effect)),
            }
        }
    }

    /// A process runs. The actor attaches to it before it writes the row, so a store that fails delays
    /// neither output nor a stop.
    async fn started(&mut self, process: ProcessId, shim: Shim, log: Arc<AttemptLog>) {
        let started = shim.started.clone();
        self.with(process, |turn| turn.attach(shim, log));
        self.attempt.process.status = ProcessStatus::Running;
        self.note_started(process, &started).await;
        self.step(process, LifeEvent::Spawned).await;
    }

    /// Continues with a process as it was found after a restart, then carries out the stop that came
    /// while it was being found.
    async fn found(&mut self, process: ProcessId, found: Adopted, log: Arc<AttemptLog>) {
        self.with(process, |turn| turn.finding = false);
        self.take_up(process, found, log).await;
        if let Some(force) = self.turn(process).and_then(|turn| turn.deferred.take()) {
            self.stop_turn(process, force).await;
        }
    }

    /// Continues with a process, by what it was found as and by the phase that the row has:
    ///
    /// ```text
    ///                 Preparing            Running         Stopping            an older turn's
    ///  Live           started              attach          attach, stop again  attach
    ///  NeverStarted   prepare, or failed*  failed          failed              closed
    ///  Ended          read, exited         read, exited    read, stopped       read, exited
    /// ```
    ///
    /// `*` failed if this daemon has tried to spawn it and could not tell whether it runs.
    async fn take_up(&mut self, process: ProcessId, found: Adopted, log: Arc<AttemptLog>) {
        let is_newest = process == self.attempt.process.process_id;
        let phase = if is_newest { self.attempt.phase } else { Phase::Settled };
        let Some(turn) = self.turn(process) else { return };
        match found {
            Adopted::Live(shim) if phase == Phase::Preparing => {
                turn.life.find_started();
                self.started(process, shim, log).await;
                self.approvals_again(process).await;
            }
            Adopted::Live(shim) => {
                turn.attach(shim, log);
                self.approvals_again(process).await;
                if phase == Phase::Stopping {
                    self.stop_turn(process, false).await;
                }
            }
            Adopted::NeverStarted if phase == Phase::Preparing && turn.life.is_preparing() => {
                turn.prepare();
            }
            Adopted::NeverStarted if phase == Phase::Settled => {
                self.step(process, LifeEvent::TreeGone).await;
            }
            // This includes a spawn of which the daemon does not know whether it succeeded: a stop may wait
            // for the outcome.
            Adopted::NeverStarted => {
                if phase != Phase::Preparing {
                    turn.life = Life::preparing();
                }
                let reason = crate::process::NEVER_STARTED;
                self.step(process, LifeEvent::NotStarted(reason.into())).await;
            }
            Adopted::Ended(exit) => {
                turn.read(log);
                match phase {
                    Phase::Preparing => {
                        turn.life.find_started();
                        // It began and ended without a daemon, so the row does not say yet what held it.
                        if let Some(started) = start::record(&self.world, &self.attempt).await {
                            self.note_started(process, &started).await;
                        }
                    }
                    Phase::Stopping => turn.life = Life::stopping(),
                    _ => {}
                }
                self.ended(process, LifeEvent::Exited(exit)).await;
            }
            // `start::found` turns `Lost` into `Ended`.
            Adopted::Lost { .. } => {}
        }
    }

    /// The process has ended, and nothing that it started is alive. Without `more`, the output task ends
    /// once it has read everything.
    async fn ended(&mut self, process: ProcessId, exited: LifeEvent) {
        self.step(process, exited).await;
        self.with(process, |turn| turn.more = None);
        self.step(process, LifeEvent::TreeGone).await;
    }

    /// The newest turn has ended: decides its outcome, and writes it. Until the store takes it the outcome
    /// waits in the turn, and the attempt counts as settled in memory.
    async fn settle(&mut self, process: ProcessId, ending: &Ending) {
        let executor = self.world.executors.get(&self.attempt.executor);
        let on_quota = executor.map_or_else(OnQuota::default, |executor| executor.on_quota());
        let resumed_itself = self.attempt.process.prompt == outcome::RESUME_PROMPT;
        let Some(turn) = self.turn(process) else { return };
        let mut outcome = outcome::decide(ending, &lock(&turn.summary), on_quota, Timestamp::now());
        if resumed_itself {
            outcome::pause(&mut outcome);
        }
        turn.unrecorded = Some(outcome.clone());
        let state = match outcome.status {
            ProcessStatus::Completed => State::Completed,
            _ => State::Failed,
        };
        let newest = &mut self.attempt.process;
        newest.status = outcome.status;
        (newest.exit_code, newest.exit_signal) = (outcome.exit_code, outcome.exit_signal);
        (self.attempt.phase, self.attempt.state) = (Phase::Settled, state);
        self.attempt.ended_as = Some(state);
        self.record(process).await;
    }

    /// Closes the turns of which nothing is alive. If nothing is left that needs an owner, the actor stops.
    pub async fn close(&mut self) {
        while let Some(over) = self.turns.iter().position(Turn::is_over) {
            let turn = self.turns.remove(over);
            self.disk_waits.retain(|(waits, _), _| *waits != turn.handle.process);
            self.notify_disk();
            self.advance(turn.handle.process, Change::Closed).await;
        }
        let has_tasks = self.collecting > 0
            || self.snapshots > 0
            || self.restoring > 0
            || self.finishing.is_some()
            || self.lent > 0
            || self.previewing.is_some();
        let is_idle = self.turns.is_empty() && !self.queue.active && !has_tasks;
        if is_idle && self.unwritten.is_empty() {
            // The report comes first: the gateway has to know of the end before a caller finds the actor
            // gone.
            self.notify(AttemptEvent::Ended(self.attempt.attempt_id));
            self.myself.stop(None);
        }
    }

    /// Makes the snapshot of the last turn in a task, if it is due. The actor does not end before that task.
    pub fn take_snapshot(&mut self) {
        self.snapshots += 1;
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        let (attempt, worktrees) = (self.attempt.clone(), Arc::clone(&self.worktrees));
        spawn(async move {
            snapshot::after_last_turn(&world, &attempt, &worktrees).await;
            let _ = myself.send_message(AttemptMessage::SnapshotTaken);
        });
    }

    /// Reports to the gateway.
    pub(super) fn notify(&self, event: AttemptEvent) {
        (self.events)(event);
    }
}

//! The state of an attempt's actor: which turns it has, and what becomes of them.

use std::sync::Arc;

use ractor::{ActorRef, DerivedActorRef};
use tokio::sync::Mutex;

use crate::event::{ProcessStatus, Timestamp};
use crate::executor::OnQuota;
use crate::ids::ProcessId;
use crate::journal::{Attempt, Change, FollowUp, Next, Phase, Process, State as Standing};
use crate::log::AttemptLog;
use crate::process::{Adopted, Shim};
use crate::world::World;

use super::disk::Waiting;
use super::lifecycle::{Effect, Ending, Input, Life};
use super::message::{Handle, Happening, StopPort, Writer};
use super::queue::Queue;
use super::row::Row;
use super::stops::Stops;
use super::turn::Turn;
use super::{Arguments, Begin, Message, Notice, outcome};

/// The actor's state.
pub struct State {
    pub(super) myself: ActorRef<Message>,
    pub(super) notices: DerivedActorRef<Notice>,
    pub(super) world: Arc<World>,
    /// As its row stands; `process` is the newest one.
    pub(super) attempt: Attempt,
    /// What is not in that row yet.
    pub(super) row: Row,
    pub(super) queue: Queue,
    worktrees: Arc<Mutex<()>>,
    /// Those of which something may be alive, oldest first. At most the last one
    /// is not settled.
    pub(super) turns: Vec<Turn>,
    pub(super) stops: Stops<StopPort>,
    /// Its writers that wait for the disk.
    pub(super) for_disk: Waiting,
    /// How many look at the worktrees, to take them away.
    pub(super) collecting: usize,
}

impl State {
    pub fn begin(myself: ActorRef<Message>, arguments: Arguments) -> Self {
        let Arguments { attempt, begin, world, notices } = arguments;
        let phase = attempt.phase;
        let is_active = phase.is_active() || phase == Phase::Queued;
        let queue = Queue::new(is_active, attempt.waiting.clone(), attempt.held);
        let mut state = Self {
            myself,
            notices,
            world,
            attempt,
            row: Row::default(),
            queue,
            worktrees: Arc::default(),
            turns: Vec::new(),
            stops: Stops::default(),
            for_disk: Waiting::default(),
            collecting: 0,
        };
        // What an actor that failed had told is no longer known.
        state.world.journal.waits_for_disk(state.attempt.attempt_id, None);
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

    // ---- turns

    fn take_turn(&mut self, process: Process, life: Life) -> &mut Turn {
        let handle = Handle { actor: self.myself.clone(), process: process.process_id };
        let attempt = Attempt { process, ..self.attempt.clone() };
        let (world, worktrees) = (Arc::clone(&self.world), Arc::clone(&self.worktrees));
        self.turns.push(Turn::new(handle, world, attempt, worktrees, life));
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    /// The turn of a process, unless it is over.
    pub(super) fn turn(&mut self, process: ProcessId) -> Option<&mut Turn> {
        self.turns.iter_mut().find(|turn| turn.handle.process == process)
    }

    /// What is to run next, after the newest turn.
    pub(super) fn next(&self, follow_up: FollowUp, has_slot: bool) -> Next {
        let last = &self.attempt.process;
        // A turn that came to nothing before it began has left its number.
        let is_new = last.status != ProcessStatus::Planned;
        let process = Process {
            process_id: ProcessId::new(),
            turn: last.turn + u32::from(is_new),
            prompt: follow_up.prompt,
            variant: follow_up.variant.or_else(|| last.variant.clone()),
            status: ProcessStatus::Planned,
            exit_code: None,
            exit_signal: None,
            ..last.clone()
        };
        Next { process, has_slot }
    }

    /// A turn has been written down: it runs, or waits for its slot.
    pub(super) fn go_on(&mut self, next: Next) {
        self.attempt.epoch += 1;
        (self.attempt.phase, self.attempt.state) = next.standing();
        self.attempt.process = next.process.clone();
        if next.has_slot {
            self.take_turn(next.process, Life::preparing()).prepare();
        } else {
            self.notify(Notice::SlotWanted(self.attempt.attempt_id, self.attempt.priority));
        }
    }

    /// The attempt holds a running slot.
    pub async fn granted(&mut self) {
        if self.attempt.phase != Phase::Queued {
            return;
        }
        (self.attempt.phase, self.attempt.state) = (Phase::Preparing, Standing::Running);
        let process = self.attempt.process.clone();
        // Unwritten, it runs all the same: after a restart it would only run from
        // the queue.
        self.advance(process.process_id, Change::Preparing).await;
        self.take_turn(process, Life::preparing()).prepare();
    }

    // ---- what happens to them

    pub async fn happened(&mut self, process: ProcessId, happening: Happening) {
        match happening {
            Happening::Life(input) => self.step(process, input).await,
            Happening::Started(shim, log) => self.started(process, *shim, log).await,
            Happening::Found(found, log) => self.found(process, *found, log).await,
            Happening::Rescued(found) => {
                if let Some(exit) = self.turn(process).and_then(|turn| turn.rescued(*found)) {
                    self.ended(process, Input::Exited(exit)).await;
                }
            }
            Happening::ExecutorSession(id) => self.executor_session(process, id).await,
            Happening::Asked(request, done) => self.asked(process, request, done).await,
            Happening::Withdrawn(key, done) => self.withdrawn(process, key, done).await,
            Happening::Expired(approval) => self.expired(process, approval).await,
            Happening::Decided(approval) => self.go_on_with(process, &approval),
            Happening::ShimClosed => self.with(process, Turn::shim_closed),
            Happening::KillTree { tries } => self.with(process, |turn| turn.kill_tree(tries)),
            Happening::KillUnfound => self.with(process, Turn::kill_unfound),
            Happening::KilledUnfound(survivors) => self.killed_unfound(process, survivors),
            Happening::ReadOut => self.with(process, Turn::read_out),
            Happening::Disk(writer, reason) => {
                let is_stalled = reason.is_some();
                self.disk(process, writer, reason);
                if writer == Writer::Spool {
                    self.step(process, Input::Stalled(is_stalled)).await;
                }
            }
        }
    }

    pub(super) fn with(&mut self, process: ProcessId, act: impl FnOnce(&mut Turn)) {
        if let Some(turn) = self.turn(process) {
            act(turn);
        }
    }

    pub(super) async fn step(&mut self, process: ProcessId, input: Input) {
        let effects = self.turn(process).map(|turn| turn.life.step(input)).unwrap_or_default();
        for effect in effects {
            match effect {
                Effect::Enter(phase) => self.enter(process, phase).await,
                Effect::Settle(ending) => self.settle(process, &ending).await,
                Effect::Answer(stopped) => self.stopped(process, stopped),
                effect => self.with(process, |turn| turn.perform(effect)),
            }
        }
    }

    async fn started(&mut self, process: ProcessId, shim: Shim, log: Arc<AttemptLog>) {
        let running = Change::Running {
            pid: shim.started.pid,
            start_time: shim.started.start_time,
            boot_id: shim.started.boot_id.clone(),
            limits: shim.started.limits.clone(),
        };
        self.with(process, |turn| turn.attach(shim, log));
        self.attempt.process.status = ProcessStatus::Running;
        self.advance(process, running).await;
        self.step(process, Input::Spawned).await;
    }

    /// What the disk tells of a process over a restart.
    async fn found(&mut self, process: ProcessId, found: Adopted, log: Arc<AttemptLog>) {
        self.with(process, |turn| turn.finding = false);
        self.take_up(process, found, log).await;
        if let Some(force) = self.turn(process).and_then(|turn| turn.deferred.take()) {
            self.stop_turn(process, force).await;
        }
    }

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
                self.step(process, Input::TreeGone).await;
            }
            // Also when a spawn left it unsure: a stop may wait for its outcome.
            Adopted::NeverStarted => {
                if phase != Phase::Preparing {
                    turn.life = Life::preparing();
                }
                let reason = crate::process::NEVER_STARTED;
                self.step(process, Input::NotStarted(reason.into())).await;
            }
            Adopted::Ended(exit) => {
                turn.read(log);
                match phase {
                    Phase::Preparing => turn.life.find_started(),
                    Phase::Stopping => turn.life = Life::stopping(),
                    _ => {}
                }
                self.ended(process, Input::Exited(exit)).await;
            }
            // Swept before it is told, so that it has ended.
            Adopted::Lost { .. } => {}
        }
    }

    /// The process has ended, and nothing that it started is alive.
    async fn ended(&mut self, process: ProcessId, exited: Input) {
        self.step(process, exited).await;
        self.with(process, Turn::no_more);
        self.step(process, Input::TreeGone).await;
    }

    async fn executor_session(&mut self, process: ProcessId, id: Option<String>) {
        // What a leftover still says is no news of the conversation.
        if process == self.attempt.process.process_id {
            self.attempt.process.executor_session_id.clone_from(&id);
            self.advance(process, Change::ExecutorSession(id)).await;
        }
    }

    async fn enter(&mut self, process: ProcessId, phase: Phase) {
        self.attempt.phase = phase;
        if phase == Phase::Stopping {
            self.advance(process, Change::Stopping).await;
        }
    }

    // ---- how they end

    async fn settle(&mut self, process: ProcessId, ending: &Ending) {
        let Some(turn) = self.turn(process) else { return };
        let digest = turn.digest.get();
        let mut outcome = outcome::decide(ending, &digest, self.on_quota(), Timestamp::now());
        if self.attempt.process.prompt == outcome::GO_ON {
            outcome::pause(&mut outcome);
        }
        let Some(turn) = self.turn(process) else { return };
        turn.unrecorded = Some(outcome.clone());
        let state = match outcome.status {
            ProcessStatus::Completed => Standing::Completed,
            _ => Standing::Failed,
        };
        let newest = &mut self.attempt.process;
        newest.status = outcome.status;
        (newest.exit_code, newest.exit_signal) = (outcome.exit_code, outcome.exit_signal);
        (self.attempt.phase, self.attempt.state) = (Phase::Settled, state);
        self.attempt.ended_as = Some(state);
        self.record(process).await;
    }

    fn on_quota(&self) -> OnQuota {
        let executor = self.world.executors.get(&self.attempt.executor);
        executor.map_or_else(OnQuota::default, |executor| executor.on_quota())
    }

    /// Closes the turns of which nothing is alive. With nothing left to own, and
    /// none that waits for its slot, the actor ends.
    pub async fn close(&mut self) {
        while let Some(over) = self.turns.iter().position(Turn::is_over) {
            let turn = self.turns.remove(over);
            self.disk_closed(turn.handle.process);
            self.advance(turn.handle.process, Change::Closed).await;
        }
        let is_idle = self.turns.is_empty() && !self.queue.is_active() && self.collecting == 0;
        if is_idle && self.row.is_written() {
            // Told first: whoever finds no actor here any more finds it gone there.
            self.notify(Notice::Ended(self.attempt.attempt_id));
            self.myself.stop(None);
        }
    }

    pub(super) fn notify(&self, notice: Notice) {
        let _ = self.notices.send_message(notice);
    }
}

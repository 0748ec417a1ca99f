//! Checks on reports of completion: runs a project's checks on the work that was
//! reported done.
//!
//! ```text
//!  report ─▶ deliver: freeze the worktrees ─▶ one transaction: the report, the run
//!                                                  │ Planned (a hint; the rows are the truth)
//!                                                  ▼
//!  Checks ── open runs in order, max_running at once ──▶ run: a task
//!
//!  a run:  planned ─checkout─▶ check ─▶ receipt ─▶ … ─▶ concluded ─────────────────▶ closed
//!             ▲                  │ stopped, or end unknown   │ rework: notify the worker ▲
//!             └──────────────────┘ (3 tries)                 └─────────────────────────────┘
//! ```
//!
//! * Nothing of the user's is changed. Uncommitted work is frozen as a commit in objects
//!   of the run's own, and laid out in a repository of the run's own; both are removed
//!   when the run is closed. See [`folder`].
//! * A check is an execution process like any other: under a shim, with limits, its
//!   output in a spool, its tree killed at its end. Of the attempt's environment it has
//!   only a marker, which names the run.
//! * All checks of a project run, one after the other in one checkout, whatever the
//!   results of the earlier ones.
//! * Each step is written down before the next one. A daemon that is killed leaves the
//!   checks running; the next one adopts them, or reads how they ended. A check whose end
//!   is unknown runs anew; so does one that was killed by a stop of everything.
//! * The verdict is one transaction of the journal's, which does not touch a task that
//!   was changed since the report.

mod checkout;
mod delivery;
pub mod folder;
mod launch;
mod notify;
mod process;
mod run;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::JoinHandle;

pub use delivery::{Delivery, deliver};
pub use folder::tidy;

use crate::gateway;
use crate::ids::CheckRunId;
use crate::journal::CheckRun;
use crate::refusal::Refusal;
use crate::retry::PAUSE;
use crate::world::World;

/// To the actor.
pub enum ChecksMessage {
    /// A run may have been planned.
    Planned,
    /// Kills what runs and begins nothing more. Answered with possible survivors, a
    /// sentence each.
    StopAll(RpcReplyPort<Vec<String>>),
    /// Runs may begin again: not all could be stopped, so the daemon goes on.
    GoOn,

    // ---- sent by its own tasks
    Read(Result<Vec<CheckRun>, Refusal>),
    /// A run's task has ended; `false`: it panicked.
    Ended(CheckRunId, bool),
}

/// The actor that owns the check runs.
pub struct Checks;

/// What it is made from.
pub struct Arguments {
    pub world: Arc<World>,
    pub gateway: ActorRef<gateway::GatewayMessage>,
}

/// Its state.
pub struct ChecksState {
    myself: ActorRef<ChecksMessage>,
    world: Arc<World>,
    gateway: ActorRef<gateway::GatewayMessage>,
    running: HashMap<CheckRunId, (CheckRun, JoinHandle<()>)>,
    /// Those whose task panicked: left to the next daemon.
    failed: HashSet<CheckRunId>,
    is_stopping: bool,
}

impl Actor for Checks {
    type Msg = ChecksMessage;
    type State = ChecksState;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<ChecksMessage>,
        Arguments { world, gateway }: Arguments,
    ) -> Result<ChecksState, ActorProcessingErr> {
        let (running, failed) = (HashMap::new(), HashSet::new());
        Ok(ChecksState { myself, world, gateway, running, failed, is_stopping: false })
    }

    async fn handle(
        &self,
        _: ActorRef<ChecksMessage>,
        message: ChecksMessage,
        state: &mut ChecksState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ChecksMessage::Planned => state.read(),
            ChecksMessage::Read(open) => state.begin(open),
            ChecksMessage::Ended(run, is_carried) => state.ended(run, is_carried),
            ChecksMessage::StopAll(port) => state.stop_all(port),
            ChecksMessage::GoOn => {
                state.is_stopping = false;
                state.read();
            }
        }
        Ok(())
    }
}

impl ChecksState {
    fn read(&self) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            let open = world.journal.open_checks().await;
            let _ = myself.send_message(ChecksMessage::Read(open));
        });
    }

    fn begin(&mut self, open: Result<Vec<CheckRun>, Refusal>) {
        let open = match open {
            Ok(open) => open,
            Err(refusal) => {
                tracing::error!(%refusal, "the check runs can't be read");
                drop(self.myself.send_after(PAUSE, || ChecksMessage::Planned));
                return;
            }
        };
        for run in open {
            let is_full = self.running.len() >= self.world.settings.checks.max_running.max(1);
            if is_full || self.is_stopping {
                return;
            }
            if !self.running.contains_key(&run.run_id) && !self.failed.contains(&run.run_id) {
                let task = self.carry(run.clone());
                self.running.insert(run.run_id, (run, task));
            }
        }
    }

    fn carry(&self, mut run: CheckRun) -> JoinHandle<()> {
        let (world, gateway) = (Arc::clone(&self.world), self.gateway.clone());
        let slot = Slot { actor: self.myself.clone(), run: run.run_id, is_carried: false };
        tokio::spawn(async move {
            while let Err(refusal) = run::carry(&world, &gateway, &mut run).await {
                tracing::error!(run = %run.run_id, %refusal, "a check run failed; it is tried again");
                tokio::time::sleep(PAUSE).await;
            }
            slot.carried();
        })
    }

    fn ended(&mut self, run: CheckRunId, is_carried: bool) {
        self.running.remove(&run);
        if !is_carried {
            self.failed.insert(run);
        }
        self.read();
    }

    fn stop_all(&mut self, port: RpcReplyPort<Vec<String>>) {
        self.is_stopping = true;
        let (world, running) = (Arc::clone(&self.world), std::mem::take(&mut self.running));
        tokio::spawn(async move {
            let mut alive = Vec::new();
            for (run, task) in running.into_values() {
                task.abort();
                // Now no other task touches its processes.
                let _ = task.await;
                alive.extend(run::halt(&world, &run).await);
            }
            let _ = port.send(alive);
        });
    }
}

/// Reports that a run's task has ended, however it did.
struct Slot {
    actor: ActorRef<ChecksMessage>,
    run: CheckRunId,
    is_carried: bool,
}

impl Slot {
    fn carried(mut self) {
        self.is_carried = true;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.actor.send_message(ChecksMessage::Ended(self.run, self.is_carried));
    }
}

//! Done is checked, not believed: runs a project's checks on what was reported done.
//!
//! ```text
//!  report ─▶ deliver: the worktrees as they are ─▶ one transaction: the report, the run
//!                                                       │ Planned (a hint; the rows are the truth)
//!                                                       ▼
//!  Checks ── open runs in order, so many at once ──▶ run: a task
//!                                                     │  checkout ▸ check ▸ receipt ▸ check ▸ receipt …
//!                                                     │  verdict: done, or to be worked on again
//!                                                     └▶ the worker's follow-up ▸ closed
//! ```
//!
//! * Nothing of the user's is changed by it. What is not committed is frozen as a
//!   commit in objects of the run's own, and laid out in a repository of the run's
//!   own; both go when the run is closed. See [`folder`].
//! * A check is an execution process as any other: under a shim, with limits, its
//!   output in a spool, its tree killed at its end. It has nothing of the attempt's
//!   environment but a marker, and that names the run.
//! * All of a project's checks are run, one after the other in one checkout, whatever
//!   the earlier ones come to.
//! * Each step is written down before the next one. A daemon that is killed leaves the
//!   checks running; the next one adopts them, or reads how they ended. What nobody saw
//!   end is run anew. A stop of everything ends them, and they are run anew then, too.
//! * The verdict is one transaction of the journal's, which leaves alone a task that
//!   somebody has changed since the report.

mod delivery;
pub mod folder;
mod ground;
mod launch;
mod process;
mod run;
mod tell;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::JoinHandle;

pub use delivery::{Delivery, deliver};
pub use folder::tidy;

use crate::gateway;
use crate::ids::CheckRunId;
use crate::journal::CheckRun;
use crate::refusal::Refusal;
use crate::world::World;

/// Before what the journal refused is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// To the actor.
pub enum Message {
    /// A run may have been planned.
    Planned,
    /// Ends what runs. Nothing is begun any more. Answered with what may be alive all
    /// the same, a sentence each.
    StopAll(RpcReplyPort<Vec<String>>),
    /// Runs may begin again: not all could be stopped, so the daemon goes on.
    GoOn,

    // ---- told by tasks of its own
    Read(Result<Vec<CheckRun>, Refusal>),
    /// A run's task has ended; `false`: before its time.
    Ended(CheckRunId, bool),
}

/// The actor that owns the check runs.
pub struct Checks;

/// What it is made from.
pub struct Arguments {
    pub world: Arc<World>,
    pub gateway: ActorRef<gateway::Message>,
}

/// Its state.
pub struct State {
    myself: ActorRef<Message>,
    world: Arc<World>,
    gateway: ActorRef<gateway::Message>,
    running: HashMap<CheckRunId, (CheckRun, JoinHandle<()>)>,
    /// Those whose task panicked: left to the next daemon.
    failed: HashSet<CheckRunId>,
    is_stopping: bool,
}

impl Actor for Checks {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        Arguments { world, gateway }: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let (running, failed) = (HashMap::new(), HashSet::new());
        Ok(State { myself, world, gateway, running, failed, is_stopping: false })
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Planned => state.read(),
            Message::Read(open) => state.begin(open),
            Message::Ended(run, is_carried) => state.ended(run, is_carried),
            Message::StopAll(port) => state.stop_all(port),
            Message::GoOn => {
                state.is_stopping = false;
                state.read();
            }
        }
        Ok(())
    }
}

impl State {
    fn read(&self) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            let open = world.journal.open_checks().await;
            let _ = myself.send_message(Message::Read(open));
        });
    }

    fn begin(&mut self, open: Result<Vec<CheckRun>, Refusal>) {
        let open = match open {
            Ok(open) => open,
            Err(refusal) => {
                tracing::error!(%refusal, "the check runs can't be read");
                drop(self.myself.send_after(RETRY, || Message::Planned));
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
                tracing::error!(run = %run.run_id, %refusal, "a check run does not go on yet");
                tokio::time::sleep(RETRY).await;
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
                // Only then nobody but us has to do with its processes.
                let _ = task.await;
                alive.extend(run::halt(&world, &run).await);
            }
            let _ = port.send(alive);
        });
    }
}

/// Tells that a run's task has ended, however it did.
struct Slot {
    actor: ActorRef<Message>,
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
        let _ = self.actor.send_message(Message::Ended(self.run, self.is_carried));
    }
}

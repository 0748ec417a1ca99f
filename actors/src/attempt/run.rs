//! The state of an attempt's actor, and what each message does to it.

use std::sync::Arc;

use ractor::{ActorRef, DerivedActorRef, RpcReplyPort};
use tokio::sync::{oneshot, watch};

use crate::journal::{Attempt, AttemptStopped, Change, Outcome, Phase};
use crate::log::AttemptLog;
use crate::process::manifest::ExitRecord;
use crate::process::{Adopted, Control, Shim};
use crate::refusal::Refusal;
use crate::world::World;

use super::digest;
use super::lifecycle::{Input, Life};
use super::output::Closing;
use super::{Arguments, Begin, Message, Notice};

pub type StopPort = RpcReplyPort<Result<AttemptStopped, Refusal>>;

/// The actor's state.
pub struct State {
    pub(super) myself: ActorRef<Message>,
    pub(super) notices: DerivedActorRef<Notice>,
    pub(super) world: Arc<World>,
    pub(super) attempt: Attempt,
    pub(super) life: Life,
    pub(super) digest: digest::Shared,
    /// The way to a live shim.
    pub(super) control: Option<Control>,
    /// Tells the output task of the end; gone once told.
    pub(super) exit: Option<oneshot::Sender<(ExitRecord, Closing)>>,
    /// Tells the output task that there is more; gone when nobody writes any more.
    pub(super) more: Option<watch::Sender<u64>>,
    /// The output task runs.
    pub(super) reading: bool,
    pub(super) stops: Vec<StopPort>,
    /// Stops that came before it was found out what there is to stop.
    deferred: Option<Vec<(bool, StopPort)>>,
    /// An outcome that the store would not take yet.
    pub(super) unrecorded: Option<Outcome>,
}

impl State {
    pub fn begin(myself: ActorRef<Message>, arguments: Arguments) -> Self {
        let Arguments { attempt, begin, world, notices } = arguments;
        let life = match (begin, attempt.phase) {
            (Begin::New, _) | (Begin::Resume, Phase::Queued | Phase::Preparing) => {
                Life::preparing()
            }
            (Begin::Resume, Phase::Running | Phase::Stopping) => Life::running(),
            (Begin::Resume, Phase::Settled | Phase::Idle) => Life::settled(),
        };
        let state = Self {
            myself,
            notices,
            world,
            attempt,
            life,
            digest: digest::Shared::default(),
            control: None,
            exit: None,
            more: None,
            reading: false,
            stops: Vec::new(),
            deferred: (begin == Begin::Resume).then(Vec::new),
            unrecorded: None,
        };
        match begin {
            Begin::New => state.prepare(),
            Begin::Resume => state.find(),
        }
        state
    }

    // ---- what is told

    pub async fn stop(&mut self, force: bool, reply: StopPort) {
        if let Some(deferred) = &mut self.deferred {
            return deferred.push((force, reply));
        }
        self.stops.push(reply);
        self.step(Input::Stop { force }).await;
    }

    pub async fn step(&mut self, input: Input) {
        for effect in self.life.step(input) {
            self.perform(effect).await;
        }
        self.end_when_over().await;
    }

    pub async fn started(&mut self, shim: Shim, log: Arc<AttemptLog>) {
        let running = Change::Running {
            pid: shim.started.pid,
            start_time: shim.started.start_time,
            boot_id: shim.started.boot_id.clone(),
        };
        self.attach(shim, log);
        self.advance(&running).await;
        self.step(Input::Spawned).await;
    }

    /// What the disk tells of the process over a restart.
    pub async fn found(&mut self, found: Adopted, log: Arc<AttemptLog>) {
        self.take_up(found, log).await;
        for (force, reply) in self.deferred.take().into_iter().flatten() {
            self.stop(force, reply).await;
        }
    }

    async fn take_up(&mut self, found: Adopted, log: Arc<AttemptLog>) {
        let phase = self.attempt.phase;
        match found {
            Adopted::Live(shim) if phase == Phase::Preparing => {
                self.life.find_started();
                self.started(shim, log).await;
            }
            Adopted::Live(shim) => {
                self.attach(shim, log);
                if phase == Phase::Stopping {
                    self.step(Input::Stop { force: false }).await;
                }
            }
            Adopted::NeverStarted if phase == Phase::Preparing => self.prepare(),
            Adopted::NeverStarted if phase == Phase::Settled => self.step(Input::TreeGone).await,
            Adopted::NeverStarted => {
                self.life = Life::preparing();
                let reason = crate::process::NEVER_STARTED;
                self.step(Input::NotStarted(reason.into())).await;
            }
            Adopted::Ended(exit) => {
                self.read(log);
                match phase {
                    Phase::Preparing => self.life.find_started(),
                    Phase::Stopping => self.life = Life::stopping(),
                    _ => {}
                }
                self.step(Input::Exited(exit)).await;
                self.more = None;
                self.step(Input::TreeGone).await;
            }
            // Swept before it is told, so that it has ended.
            Adopted::Lost { .. } => {}
        }
    }

    /// The connection to the shim has ended: the shim is done, or was killed.
    pub fn shim_closed(&mut self) {
        if let Some(control) = self.control.take() {
            self.rescue(control);
        }
    }

    /// What became of a process whose shim has gone.
    pub async fn rescued(&mut self, found: Adopted) {
        match found {
            Adopted::Live(shim) => {
                tracing::warn!(attempt = %self.attempt.attempt_id, "a shim was killed; another goes on");
                self.connect(shim);
            }
            Adopted::Ended(exit) => {
                self.step(Input::Exited(exit)).await;
                self.more = None;
                self.step(Input::TreeGone).await;
            }
            Adopted::NeverStarted | Adopted::Lost { .. } => {}
        }
    }

    pub async fn executor_session(&mut self, id: String) {
        self.attempt.process.executor_session_id = Some(id.clone());
        self.advance(&Change::ExecutorSession(id)).await;
    }

    /// The output task has ended: the log is whole.
    pub async fn read_out(&mut self) {
        self.reading = false;
        self.end_when_over().await;
    }

    pub async fn record(&mut self) {
        if let Some(outcome) = self.unrecorded.take() {
            self.write_outcome(outcome).await;
        }
        self.end_when_over().await;
    }
}

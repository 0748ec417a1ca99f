//! One turn's process, as the attempt's actor holds it: its state machine, and the tasks
//! that carry out its effects and report back through the [`TurnHandle`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot, watch};

use crate::blocking::{blocking, lock};
use crate::event::{Event, Timestamp};
use crate::executor::Message;
use crate::failpoint;
use crate::journal::{Approval, Attempt, Outcome};
use crate::log::{AttemptLog, LogError};
use crate::process::records::{ExitRecord, StopKind};
use crate::process::{Control, ControlError, Shim, ShimEvent, Signal, Target};
use crate::retry::{PAUSE, outlasting_store};
use crate::task::spawn;
use crate::world::World;

use super::end_less_confined::{Earlier, end_less_confined};
use super::lifecycle::{Effect, Life, LifeEvent, StopFacts, Timer};
use super::message::{DiskWriter, TurnEvent, TurnHandle};
use super::output::{Output, may_pass};
use super::provision::{SetupSignals, SetupWord, set_up};
use super::stdin_writer::StdinWriter;
use super::turn_summary::SharedSummary;
use super::{freeze_notice, network_approvals, own_state, prepare, snapshot, start};

/// How long a stopped turn waits for its log to be taken in.
const DRAIN_GRACE: Duration = Duration::from_millis(250);
/// How long an executor may take to end once its turn has, and once it was asked to.
const LINGER: Duration = Duration::from_secs(10);
const OUTSTAY: Duration = Duration::from_secs(5);
/// Between tries to have a tree killed whose shim is being replaced, and how many.
const KILL_RETRY: Duration = Duration::from_millis(50);
const KILL_TRIES: u32 = 100;

pub struct Turn {
    pub handle: TurnHandle,
    pub(super) world: Arc<World>,
    /// As it was when the turn began; its process is the turn's.
    pub(super) attempt: Attempt,
    /// Locked while the attempt's worktrees are being made, and while their snapshot is.
    worktrees: Arc<Mutex<()>>,
    pub life: Life,
    pub summary: SharedSummary,
    control: Option<Control>,
    pub stdin: StdinWriter,
    /// Sends the output task the end; `None` once sent.
    exit: Option<oneshot::Sender<(ExitRecord, Option<StopFacts>)>>,
    /// Notifies the output task of more bytes; `None`: no writer is left.
    pub more: Option<watch::Sender<u64>>,
    pub reading: bool,
    /// A task finds out what became of the process over a restart.
    pub finding: bool,
    /// A stop that came meanwhile; `true`: by force.
    pub deferred: Option<bool>,
    /// What its setup hears from it.
    pub setup: watch::Sender<SetupWord>,
    /// An outcome that the store has not taken yet.
    pub unrecorded: Option<Outcome>,
    /// What runs beside it; taken by its preparation.
    earlier: Earlier,
    /// Closed once nothing of it is alive.
    pub alive: watch::Sender<()>,
}

impl Turn {
    pub fn new(
        handle: TurnHandle,
        world: Arc<World>,
        attempt: Attempt,
        worktrees: Arc<Mutex<()>>,
        life: Life,
        earlier: Earlier,
    ) -> Self {
        let stdin = StdinWriter::new(&world.settings.process_dir(&attempt));
        Self {
            handle,
            world,
            attempt,
            worktrees,
            life,
            summary: SharedSummary::default(),
            control: None,
            stdin,
            exit: None,
            more: None,
            reading: false,
            finding: false,
            deferred: None,
            setup: watch::Sender::default(),
            unrecorded: None,
            earlier,
            alive: watch::Sender::default(),
        }
    }

    pub fn is_over(&self) -> bool {
        let is_quiet = self.control.is_none() && !self.reading;
        is_quiet && self.life.is_over() && self.unrecorded.is_none()
    }

    /// Its executor does not know the session that it was to resume.
    pub fn lost_its_session(&self) -> bool {
        self.attempt.may_resume() && lock(&self.summary).session_lost
    }

    /// Carries out an effect that concerns the process alone.
    pub fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Spawn => self.spawn(),
            Effect::Interrupt { by_message } => self.interrupt(by_message),
            Effect::CloseStdin => self.stdin.close(),
            Effect::Dismiss => self.signal_leader(Signal::SIGTERM),
            Effect::KillLeader => self.signal_leader(Signal::SIGKILL),
            Effect::Terminate => self.terminate(),
            Effect::KillTree => self.kill_tree(0),
            Effect::Drain(exit) => self.drain(exit),
            Effect::Arm(timer) => self.arm(timer),
            // The attempt's own: they change its row, or answer its callers.
            Effect::Enter(_) | Effect::Settle(_) | Effect::Answer(_) => {}
        }
    }

    /// Runs work in a task; the actor gets the event that it returns.
    fn report<F>(&self, work: impl FnOnce(Arc<World>, Attempt) -> F)
    where
        F: Future<Output = TurnEvent> + Send + 'static,
    {
        let (handle, work) = (self.handle.clone(), work(self.world.clone(), self.attempt.clone()));
        spawn(async move { handle.send(work.await) });
    }

    pub fn prepare(&mut self) {
        let earlier = std::mem::take(&mut self.earlier);
        let (worktrees, handle) = (Arc::clone(&self.worktrees), self.handle.clone());
        let signals = SetupSignals(self.setup.subscribe());
        self.report(|world, attempt| async move {
            // The task of a turn that was stopped may still make them.
            let _making = worktrees.lock().await;
            snapshot::before_next_turn(&world, &attempt).await;
            let what = format!("attempt {}: its preparation", attempt.attempt_id);
            let making = || {
                Box::pin(async {
                    prepare::worktrees(&world, &attempt, &handle, &signals).await?;
                    set_up(&world, &attempt, &handle, &signals).await
                })
            };
            let made = async {
                end_less_confined(&world, &attempt, earlier, &handle, &signals).await?;
                outlasting_store(what, making).await
            };
            TurnEvent::Life(match made.await {
                Ok(()) => LifeEvent::Prepared,
                Err(reason) => {
                    start::not_prepared(&world, &attempt, &reason).await;
                    LifeEvent::NotStarted(reason)
                }
            })
        });
    }

    fn spawn(&self) {
        let summary = self.summary.clone();
        self.report(|world, attempt| async move {
            let what = format!("attempt {}: starting its process", attempt.attempt_id);
            let starting = || Box::pin(start::process(&world, &attempt, summary.clone()));
            match outlasting_store(what, starting).await {
                Ok(Some((shim, log))) => TurnEvent::Started(Box::new(shim), log),
                Ok(None) => start::found(&world, &attempt, summary).await,
                Err(reason) => TurnEvent::Life(LifeEvent::NotStarted(reason)),
            }
        });
    }

    /// Finds out what became of the process over a restart.
    pub fn find(&mut self) {
        self.finding = true;
        let summary = self.summary.clone();
        self.report(|world, attempt| async move { start::found(&world, &attempt, summary).await });
    }

    /// Finds out why the connection to the shim has ended.
    pub fn shim_closed(&mut self) {
        let Some(control) = self.control.take() else { return };
        self.report(|world, attempt| async move {
            TurnEvent::Rescued(Box::new(start::rescued(&world, &attempt, control).await))
        });
    }

    pub fn attach(&mut self, shim: Shim, log: Arc<AttemptLog>) {
        self.read(log);
        self.connect(shim);
        let (world, attempt) = (Arc::clone(&self.world), self.attempt.clone());
        spawn(own_state::keep_in_step(world, attempt, self.alive.subscribe()));
    }

    /// Passes on events of the shim to the actor, and growth of the spool to the output.
    pub fn connect(&mut self, shim: Shim) {
        let Shim { control, mut events, mut lengths, started } = shim;
        network_approvals::ask(&self.world, &self.attempt, &started, &lengths, &self.handle);
        if control.has_stdin() {
            let sending = self.stdin.clone().send_to(control.clone());
            spawn(async move {
                if let Err(error) = sending.await {
                    tracing::debug!(%error, "an executor's standard input is closed");
                }
            });
        }
        self.control = Some(control);
        if let Some(more) = self.more.clone() {
            spawn(async move {
                while lengths.changed().await.is_ok() {
                    more.send_modify(|count| *count += 1);
                }
            });
        }
        let (handle, attempt) = (self.handle.clone(), self.attempt.attempt_id);
        let (world, of_turn) = (Arc::clone(&self.world), self.attempt.clone());
        spawn(async move {
            while let Some(event) = events.recv().await {
                handle.send(match event {
                    ShimEvent::Exited(exit) => TurnEvent::Life(LifeEvent::Exited(exit)),
                    ShimEvent::Stalled(reason) => {
                        tracing::warn!(%attempt, %reason, "the spool takes no bytes; it waits");
                        TurnEvent::Disk(DiskWriter::Spool, Some(reason))
                    }
                    ShimEvent::Resumed => {
                        tracing::info!(%attempt, "the spool takes bytes again");
                        TurnEvent::Disk(DiskWriter::Spool, None)
                    }
                    ShimEvent::Frozen(is_frozen) => {
                        freeze_notice::note(&world, &of_turn, is_frozen).await;
                        continue;
                    }
                    ShimEvent::Closed => break,
                });
            }
            // The shim that takes over reports it again.
            handle.send(TurnEvent::Disk(DiskWriter::Spool, None));
            handle.send(TurnEvent::ShimClosed);
        });
    }

    pub fn read(&mut self, log: Arc<AttemptLog>) {
        let (exit, exited) = oneshot::channel();
        // Changed from the start: there may be bytes already.
        let (more, lengths) = watch::channel(0);
        more.send_modify(|count| *count += 1);
        (self.exit, self.more, self.reading) = (Some(exit), Some(more), true);
        let (summary, stdin) = (self.summary.clone(), self.stdin.clone());
        let (process, session) =
            (self.handle.process, self.attempt.process.executor_session_id.clone());
        let output = Output { log, process, summary, stdin, session, lengths, exit: exited };
        let handle = self.handle.clone();
        spawn(async move {
            output.follow(&handle).await;
            handle.send(TurnEvent::ReadOut);
        });
    }

    /// Lets the output task read the rest and write the closing entries.
    fn drain(&mut self, exit: ExitRecord) {
        if let Some(exited) = self.exit.take() {
            // The task lives until it receives this.
            let _ = exited.send((exit, self.life.stop_facts()));
        }
    }

    /// Sends the shim a command, in a task.
    fn command<F>(&self, send: impl FnOnce(Control) -> F)
    where
        F: Future<Output = Result<(), ControlError>> + Send + 'static,
    {
        let Some(sending) = self.control.clone().map(send) else { return };
        spawn(async move {
            if let Err(error) = sending.await {
                tracing::debug!(%error, "a shim did not take a command");
            }
        });
    }

    fn interrupt(&self, by_message: bool) {
        let message = lock(&self.summary).interrupt.clone().filter(|_| by_message);
        let (stdin, control) = (self.stdin.clone(), self.control.clone());
        spawn(async move {
            if let Some(control) = &control {
                // A shim that takes no request takes no signal either, which is logged below.
                let _ = control.stopping(StopKind::Soft).await;
            }
            if let Some(message) = message {
                match stdin.write(message).await {
                    Ok(_) => return failpoint::hit("interrupt", "said"),
                    // The message has to be on file first, and there may be no room.
                    Err(error) => {
                        tracing::warn!(%error, "a turn is interrupted by a signal instead");
                    }
                }
            }
            if let Some(control) = control {
                match control.signal(Target::Leader, Signal::SIGINT).await {
                    Ok(_) => failpoint::hit("interrupt", "sent"),
                    Err(error) => tracing::debug!(%error, "a shim did not take a command"),
                }
            }
        });
    }

    /// Sends the executor the verdict, and logs it. Retries what the disk does not take.
    pub fn send_verdict(&self, approval: Approval, entry: Event, answer: Message) {
        let (handle, world) = (self.handle.clone(), self.world.clone());
        let (stdin, attempt) = (self.stdin.clone(), self.attempt.attempt_id);
        spawn(async move {
            let sending = async {
                let log = world.logs.get(attempt).await?;
                let (process, now, id) = (handle.process, Timestamp::now(), approval.approval_id);
                blocking(move || log.append_verdict(process, id, now, entry)).await?;
                stdin.write(answer).await.map(drop).map_err(LogError::from)
            };
            if let Err(error) = sending.await {
                tracing::error!(%error, "a verdict was not sent to its executor");
                if may_pass(&error).is_some() {
                    let again = move || TurnEvent::Decided(Box::new(approval));
                    handle.send_after(PAUSE, again);
                }
            }
        });
    }

    fn signal_leader(&self, signal: Signal) {
        self.command(move |control| async move {
            control.signal(Target::Leader, signal).await.map(drop)
        });
    }

    fn terminate(&self) {
        let handle = self.handle.clone();
        self.command(|control| async move {
            let count = control.signal(Target::Tree, Signal::SIGTERM).await?;
            handle.send(TurnEvent::Life(LifeEvent::Terminated(count)));
            control.close_stdin().await
        });
    }

    /// Has the shim kill the tree. Waits for the next shim while a killed one is replaced.
    pub fn kill_tree(&self, tries: u32) {
        let handle = self.handle.clone();
        let Some(control) = self.control.clone().filter(|_| tries < KILL_TRIES) else {
            let may_live = self.life.tree;
            return if may_live && tries < KILL_TRIES {
                let again = move || TurnEvent::KillTree(tries + 1);
                handle.send_after(KILL_RETRY, again);
            } else {
                // Nothing is left, or it can't be known what is.
                let killed = LifeEvent::Killed { signalled: 0, survivors: u32::from(may_live) };
                handle.send(TurnEvent::Life(killed));
            };
        };
        let kind = self.life.stop_facts().map(|stop| stop.kind());
        spawn(async move {
            if let Some(kind) = kind {
                // A shim that takes no request fails the kill too, which is tried again.
                let _ = control.stopping(kind).await;
            }
            match control.kill_tree().await {
                Ok(report) => {
                    let signalled = u32::try_from(report.signalled).unwrap_or(u32::MAX);
                    let survivors = u32::try_from(report.survivors.len()).unwrap_or(u32::MAX);
                    if survivors > 0 {
                        tracing::error!(?report, "processes lived through a kill");
                    }
                    handle.send(TurnEvent::Life(LifeEvent::Killed { signalled, survivors }));
                }
                // Mostly because nothing was left to kill; the report of its end follows.
                Err(error) => {
                    tracing::debug!(%error, "a shim did not kill its tree");
                    let spent =
                        if error == ControlError::Unresponsive { KILL_TRIES / 2 } else { 1 };
                    let again = move || TurnEvent::KillTree(tries + spent);
                    handle.send_after(KILL_RETRY, again);
                }
            }
        });
    }

    fn arm(&self, timer: Timer) {
        let grace = self.world.settings.stop_grace;
        let after = match timer {
            Timer::Terminate => grace / 2,
            Timer::Kill => grace,
            Timer::Linger => LINGER,
            Timer::Outstay => OUTSTAY,
            Timer::Drain => DRAIN_GRACE,
        };
        self.handle.send_after(after, move || TurnEvent::Life(LifeEvent::Timer(timer)));
    }
}

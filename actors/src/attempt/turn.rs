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
/// How long an executor may take to end once its turn has ended, and how long once it got SIGTERM.
const LINGER: Duration = Duration::from_secs(10);
const OUTSTAY: Duration = Duration::from_secs(5);
/// The pause between tries to kill a tree whose shim is being replaced, and how many tries there are
/// (5 s together).
const KILL_RETRY: Duration = Duration::from_millis(50);
const KILL_TRIES: u32 = 100;

/// One turn and its process. No other task holds it: what runs beside the actor has clones of the parts.
pub struct Turn {
    /// How its tasks report. `handle.process` identifies the turn.
    pub handle: TurnHandle,
    pub(super) world: Arc<World>,
    /// The attempt as it was when the turn began; its `process` is the turn's.
    pub(super) attempt: Attempt,
    /// Held while this turn's preparation makes the worktrees and sets them up.
    worktrees: Arc<Mutex<()>>,
    pub life: Life,
    /// The facts of its log, which the output task fills in.
    pub summary: SharedSummary,
    /// The connection to its shim. `None`: no shim is known, or it is being replaced.
    control: Option<Control>,
    /// Writes to its standard input, if its protocol is two-way.
    pub stdin: StdinWriter,
    /// Gives the output task the record of the end; `None` once that is done, or without such a task.
    exit: Option<oneshot::Sender<(ExitRecord, Option<StopFacts>)>>,
    /// Tells the output task that the spool has grown; `None`: no writer is left, so the task ends.
    pub more: Option<watch::Sender<u64>>,
    /// The output task runs.
    pub reading: bool,
    /// A task finds out what became of the process over a restart. A stop is deferred until then.
    pub finding: bool,
    /// The stop that came while the process was being found; `true`: by force.
    pub deferred: Option<bool>,
    /// What the task of the setup has to know: a stop, and a person's decisions.
    pub setup: watch::Sender<SetupWord>,
    /// The outcome, until the store has taken it.
    pub unrecorded: Option<Outcome>,
    /// What ran beside it when it was planned. Its preparation takes this.
    earlier: Earlier,
    /// Closed by the drop of this turn, once nothing of it is alive. Nothing is ever sent.
    pub alive: watch::Sender<()>,
}

impl Turn {
    /// A turn with nothing under way: [`Self::prepare`] or [`Self::find`] is to follow.
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

    /// Nothing of it is alive, its log is read, its outcome is written, and no stop waits for it.
    pub fn is_over(&self) -> bool {
        let is_quiet = self.control.is_none() && !self.reading;
        is_quiet && self.life.is_over() && self.unrecorded.is_none()
    }

    /// Its executor has said that it does not know the session that it was to resume.
    pub fn lost_its_session(&self) -> bool {
        self.attempt.may_resume() && lock(&self.summary).session_lost
    }

    /// Carries out an effect that concerns the process.
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
            // `AttemptActorState::step` carries these out.
            Effect::Enter(_) | Effect::Settle(_) | Effect::Answer(_) => {}
        }
    }

    /// Runs work in a task, and sends the actor the event that the work ends with.
    fn report<F>(&self, work: impl FnOnce(Arc<World>, Attempt) -> F)
    where
        F: Future<Output = TurnEvent> + Send + 'static,
    {
        let (handle, work) = (self.handle.clone(), work(self.world.clone(), self.attempt.clone()));
        spawn(async move { handle.send(work.await) });
    }

    /// Makes the worktrees ready for this turn: `Prepared` or `NotStarted` follows. In this order: the
    /// snapshot of the turn before, while nothing has changed its files; the end of what runs in a weaker
    /// sandbox; the worktrees; their setup. A fault of the store delays the last two and does not fail them.
    pub fn prepare(&mut self) {
        let earlier = std::mem::take(&mut self.earlier);
        let (worktrees, handle) = (Arc::clone(&self.worktrees), self.handle.clone());
        let signals = SetupSignals(self.setup.subscribe());
        self.report(|world, attempt| async move {
            // The preparation of a turn that was stopped may still be at work on them.
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
                    start::not_started(&world, &attempt, &reason).await;
                    LifeEvent::NotStarted(reason)
                }
            })
        });
    }

    /// Starts the process. If it is not known whether one runs, the folder shows that (`start::found`).
    fn spawn(&self) {
        let summary = self.summary.clone();
        self.report(|world, attempt| async move {
            let what = format!("attempt {}: starting its process", attempt.attempt_id);
            let starting = || Box::pin(start::process(&world, &attempt, summary.clone()));
            match outlasting_store(what, starting).await {
                Ok(Some((shim, log))) => TurnEvent::Started(Box::new(shim), log),
                Ok(None) => start::found(&world, &attempt, summary).await,
                Err(reason) => {
                    start::not_started(&world, &attempt, &reason).await;
                    TurnEvent::Life(LifeEvent::NotStarted(reason))
                }
            }
        });
    }

    /// Finds out what became of the process over a restart: `Found` follows.
    pub fn find(&mut self) {
        self.finding = true;
        let summary = self.summary.clone();
        self.report(|world, attempt| async move { start::found(&world, &attempt, summary).await });
    }

    /// Finds out why the connection to the shim has ended: `Rescued` follows.
    pub fn shim_closed(&mut self) {
        let Some(control) = self.control.take() else { return };
        self.report(|world, attempt| async move {
            TurnEvent::Rescued(Box::new(start::rescued(&world, &attempt, control).await))
        });
    }

    /// Reads the output of a process that runs, and keeps its credentials in step with the person's.
    pub fn attach(&mut self, shim: Shim, log: Arc<AttemptLog>) {
        self.read(log);
        self.connect(shim);
        let (world, attempt) = (Arc::clone(&self.world), self.attempt.clone());
        spawn(own_state::keep_in_step(world, attempt, self.alive.subscribe()));
    }

    /// Takes over the connection to a shim: the first one, or that of the shim that replaces a dead one.
    /// Passes on the shim's events to the actor, the growth of the spool to the output task, and messages on
    /// file to the executor's stdin.
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
            // If the spool still takes no bytes, the shim that takes over reports that again.
            handle.send(TurnEvent::Disk(DiskWriter::Spool, None));
            handle.send(TurnEvent::ShimClosed);
        });
    }

    /// Starts the task that reads the spool into the log. It ends when the shim and all who could write have
    /// ended: `ReadOut` follows.
    pub fn read(&mut self, log: Arc<AttemptLog>) {
        let (exit, exited) = oneshot::channel();
        // Counts as changed from the start: the spool may hold bytes already.
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

    /// Gives the output task the record of the end, by which it reads the rest and closes the log.
    fn drain(&mut self, exit: ExitRecord) {
        if let Some(exited) = self.exit.take() {
            // The task lives until it receives this, so the send can't fail.
            let _ = exited.send((exit, self.life.stop_facts()));
        }
    }

    /// Sends the shim a command, in a task. A shim that does not take it has ended: its end is reported
    /// elsewhere.
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

    /// The first step of a soft stop: the protocol's own interrupt if there is one, else SIGINT. The shim
    /// gets notice of the stop first, so that its record of the end mentions the stop even if this daemon
    /// dies.
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
                    // A message has to be on file before it is sent, and the disk may be full.
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

    /// Logs the verdict, then sends it to the executor. What the disk does not take is tried again; the log
    /// and the file of messages take each verdict once.
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

    /// Signals the leader's process group.
    fn signal_leader(&self, signal: Signal) {
        self.command(move |control| async move {
            control.signal(Target::Leader, signal).await.map(drop)
        });
    }

    /// Sends SIGTERM to every process of the tree, reports how many got it, and then ends stdin.
    fn terminate(&self) {
        let handle = self.handle.clone();
        self.command(|control| async move {
            let count = control.signal(Target::Tree, Signal::SIGTERM).await?;
            handle.send(TurnEvent::Life(LifeEvent::Terminated(count)));
            control.close_stdin().await
        });
    }

    /// Has the shim kill the tree: `Killed` follows. While a dead shim is replaced there is no connection,
    /// so this is tried again, `KILL_TRIES` times in all.
    pub fn kill_tree(&self, tries: u32) {
        let handle = self.handle.clone();
        let Some(control) = self.control.clone().filter(|_| tries < KILL_TRIES) else {
            let may_live = self.life.tree;
            return if may_live && tries < KILL_TRIES {
                let again = move || TurnEvent::KillTree(tries + 1);
                handle.send_after(KILL_RETRY, again);
            } else {
                // Nothing is left; or it can't be known what is, which counts as one survivor.
                let killed = LifeEvent::Killed { signalled: 0, survivors: u32::from(may_live) };
                handle.send(TurnEvent::Life(killed));
            };
        };
        let kind = self.life.stop_facts().map(|stop| stop.kind());
        spawn(async move {
            if let Some(kind) = kind {
                // A shim that does not take this does not take the kill either, which is tried again.
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
                // Mostly nothing was left to kill, and the report of the end follows. A shim that does not
                // answer has used up its time limit, so it gets few tries.
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

    /// Sends a timer's event after its time.
    fn arm(&self, timer: Timer) {
        let grace = self.world.settings.launch.stop_grace;
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

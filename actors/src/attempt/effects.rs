//! How an attempt's actor brings about what its lifecycle asks for. Each effect
//! is quick, or a task of its own that reports back with a message.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::{oneshot, watch};

use crate::event::{ProcessStatus, Timestamp};
use crate::journal::{Attempt, AttemptStopped, Change, Outcome, Phase, State as Standing};
use crate::log::AttemptLog;
use crate::process::manifest::ExitRecord;
use crate::process::{Control, ControlError, Shim, ShimEvent, Signal};
use crate::world::World;

use super::lifecycle::{Effect, Ending, Input, Stopped, Timer};
use super::output::{Closing, Output};
use super::run::State;
use super::start::NotStarted;
use super::{Message, Notice, outcome, prepare, start};

/// How long a stopped turn waits for its log to be taken in.
const DRAIN_GRACE: Duration = Duration::from_millis(250);
/// Between tries to write an outcome down.
const RECORD_RETRY: Duration = Duration::from_secs(1);
/// Between tries to have a tree killed whose shim is being replaced, and how many.
const KILL_RETRY: Duration = Duration::from_millis(50);
const KILL_TRIES: u32 = 100;

impl State {
    pub(super) async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Spawn => self.spawn(),
            Effect::Enter(phase) => self.enter(phase).await,
            Effect::Interrupt => self.command(|control| async move {
                control.signal_leader(Signal::SIGINT).await.map(drop)
            }),
            Effect::Terminate => self.command(|control| async move {
                control.signal_tree(Signal::SIGTERM).await?;
                control.close_stdin().await
            }),
            Effect::KillTree => self.kill_tree(0),
            Effect::Drain(exit) => self.drain(exit),
            Effect::Arm(timer) => self.arm(timer),
            Effect::Settle(ending) => self.settle(&ending).await,
            Effect::Answer(stopped) => self.answer(&stopped),
        }
    }

    pub(super) fn prepare(&self) {
        let (myself, world, attempt) = self.for_task();
        tokio::spawn(async move {
            let input = match prepare::worktrees(&world, &attempt).await {
                Ok(()) => Input::Prepared,
                Err(reason) => Input::NotStarted(reason),
            };
            tell(&myself, Message::Happened(input));
        });
    }

    fn spawn(&self) {
        let (myself, world, attempt) = self.for_task();
        let digest = self.digest.clone();
        tokio::spawn(async move {
            let message = match start::process(&world, &attempt, digest.clone()).await {
                Ok((shim, log)) => Message::Started(Box::new(shim), log),
                Err(NotStarted::Certain(reason)) => Message::Happened(Input::NotStarted(reason)),
                Err(NotStarted::Unsure) => {
                    let (found, log) = start::found(&world, &attempt, digest).await;
                    Message::Found(Box::new(found), log)
                }
            };
            tell(&myself, message);
        });
    }

    pub(super) fn find(&self) {
        let (myself, world, attempt) = self.for_task();
        let digest = self.digest.clone();
        tokio::spawn(async move {
            let (found, log) = start::found(&world, &attempt, digest).await;
            tell(&myself, Message::Found(Box::new(found), log));
        });
    }

    pub(super) fn attach(&mut self, shim: Shim, log: Arc<AttemptLog>) {
        self.read(log);
        self.connect(shim);
    }

    /// Passes on what the shim tells: events to this actor, growth to the output.
    pub(super) fn connect(&mut self, shim: Shim) {
        let Shim { control, mut events, mut lengths, .. } = shim;
        self.control = Some(control);
        if let Some(more) = self.more.clone() {
            tokio::spawn(async move {
                while lengths.changed().await.is_ok() {
                    more.send_modify(|count| *count += 1);
                }
            });
        }
        let (myself, attempt) = (self.myself.clone(), self.attempt.attempt_id);
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    ShimEvent::Exited(exit) => {
                        tell(&myself, Message::Happened(Input::Exited(exit)));
                    }
                    ShimEvent::Stalled(reason) => {
                        tracing::warn!(%attempt, %reason, "the spool takes no bytes; it waits");
                    }
                    ShimEvent::Resumed => tracing::info!(%attempt, "the spool takes bytes again"),
                    ShimEvent::TreeGone => {}
                    ShimEvent::Closed => break,
                }
            }
            tell(&myself, Message::ShimClosed);
        });
    }

    /// Starts to take the process's output into the log.
    pub(super) fn read(&mut self, log: Arc<AttemptLog>) {
        let (exit, told) = oneshot::channel();
        // Changed from the start: what is there already is to be read.
        let (more, lengths) = watch::channel(0);
        more.send_modify(|count| *count += 1);
        self.exit = Some(exit);
        self.more = Some(more);
        self.reading = true;
        let process = self.attempt.process.process_id;
        let output = Output {
            log,
            process,
            digest: self.digest.clone(),
            session: self.attempt.process.executor_session_id.clone(),
            lengths,
            exit: told,
        };
        let (session, drained) = (self.myself.clone(), self.myself.clone());
        let myself = self.myself.clone();
        tokio::spawn(async move {
            output
                .follow(
                    |id| tell(&session, Message::ExecutorSession(id)),
                    || tell(&drained, Message::Happened(Input::Drained)),
                )
                .await;
            tell(&myself, Message::ReadOut);
        });
    }

    /// Lets the output task take in the rest and write the closing entries.
    pub(super) fn drain(&mut self, exit: ExitRecord) {
        let Some(told) = self.exit.take() else { return };
        let (digest, stopped) = (self.digest.clone(), self.life.stop_facts());
        let closing: Closing = Arc::new(move |exit| {
            let stopped = stopped.clone();
            let ending = Ending { exit: Some(exit.clone()), reason: None, stopped };
            let outcome = outcome::decide(&ending, &digest.get(), exit.at);
            vec![(exit.at, outcome::process_end(&outcome))]
        });
        // The task lives until it was told.
        let _ = told.send((exit, closing));
    }

    fn command<F>(&self, send: impl FnOnce(Control) -> F)
    where
        F: Future<Output = Result<(), ControlError>> + Send + 'static,
    {
        let Some(control) = &self.control else { return };
        let sending = send(control.clone());
        tokio::spawn(async move {
            if let Err(error) = sending.await {
                tracing::debug!(%error, "a shim took no command");
            }
        });
    }

    /// Has the shim kill the tree. While a killed shim is being replaced there is
    /// none to do it: the next one is asked.
    pub(super) fn kill_tree(&self, tries: u32) {
        let myself = self.myself.clone();
        let Some(control) = self.control.clone().filter(|_| tries < KILL_TRIES) else {
            return self.kill_later(tries);
        };
        tokio::spawn(async move {
            match control.kill_tree().await {
                Ok(report) => {
                    let signalled = u32::try_from(report.signalled).unwrap_or(u32::MAX);
                    let survivors = u32::try_from(report.survivors.len()).unwrap_or(u32::MAX);
                    if survivors > 0 {
                        tracing::error!(?report, "processes lived through a kill");
                    }
                    tell(&myself, Message::Happened(Input::Killed { signalled, survivors }));
                }
                // Mostly because nothing was left to kill; that it ended is still
                // to be told.
                Err(error) => {
                    tracing::debug!(%error, "a shim did not kill its tree");
                    let spent =
                        if error == ControlError::Unresponsive { KILL_TRIES / 2 } else { 1 };
                    let again = move || Message::KillTree { tries: tries + spent };
                    drop(myself.send_after(KILL_RETRY, again));
                }
            }
        });
    }

    fn kill_later(&self, tries: u32) {
        let may_live = self.life.has_tree();
        if may_live && tries < KILL_TRIES {
            let again = move || Message::KillTree { tries: tries + 1 };
            drop(self.myself.send_after(KILL_RETRY, again));
        } else {
            // Nothing is left, or nobody can say what is.
            let killed = Input::Killed { signalled: 0, survivors: u32::from(may_live) };
            tell(&self.myself, Message::Happened(killed));
        }
    }

    /// Finds out, in a task, why the connection to the shim has ended.
    pub(super) fn rescue(&self, control: Control) {
        let (myself, world, attempt) = self.for_task();
        tokio::spawn(async move {
            let found = start::rescued(&world, &attempt, control).await;
            tell(&myself, Message::Rescued(Box::new(found)));
        });
    }

    fn arm(&self, timer: Timer) {
        let grace = self.world.settings.stop_grace;
        let after = match timer {
            Timer::Terminate => grace / 2,
            Timer::Kill => grace,
            Timer::Drain => DRAIN_GRACE,
        };
        drop(self.myself.send_after(after, move || Message::Happened(Input::Timer(timer))));
    }

    async fn enter(&mut self, phase: Phase) {
        self.attempt.phase = phase;
        if phase == Phase::Stopping {
            self.advance(&Change::Stopping).await;
        }
    }

    async fn settle(&mut self, ending: &Ending) {
        let outcome = outcome::decide(ending, &self.digest.get(), Timestamp::now());
        let process = &mut self.attempt.process;
        process.status = outcome.status;
        (process.exit_code, process.exit_signal) = (outcome.exit_code, outcome.exit_signal);
        self.attempt.phase = Phase::Settled;
        self.attempt.state = match outcome.status {
            ProcessStatus::Completed => Standing::Completed,
            _ => Standing::Failed,
        };
        self.write_outcome(outcome).await;
        let _ = self.notices.send_message(Notice::SlotFreed(self.attempt.attempt_id));
    }

    pub(super) async fn write_outcome(&mut self, outcome: Outcome) {
        let settled = Change::Settled(outcome.clone());
        if !self.advance(&settled).await {
            self.unrecorded = Some(outcome);
            drop(self.myself.send_after(RECORD_RETRY, || Message::Record));
        }
    }

    fn answer(&mut self, stopped: &Stopped) {
        let process = &self.attempt.process;
        let answer = AttemptStopped {
            attempt_id: self.attempt.attempt_id,
            execution_process_id: Some(process.process_id),
            stopped: stopped.stopped,
            state: self.attempt.state,
            phase: self.attempt.phase,
            forced: stopped.facts.forced,
            signals: stopped.facts.signals.iter().map(|&signal| signal.to_owned()).collect(),
            exit_code: process.exit_code,
            exit_signal: process.exit_signal,
            survivors: stopped.survivors,
        };
        for port in self.stops.drain(..) {
            let _ = port.send(Ok(answer.clone()));
        }
    }

    pub(super) async fn end_when_over(&mut self) {
        let over = self.life.is_over() && self.control.is_none() && !self.reading;
        if over && self.unrecorded.is_none() {
            self.advance(&Change::Closed).await;
            let _ = self.notices.send_message(Notice::Ended(self.attempt.attempt_id));
            self.myself.stop(None);
        }
    }

    /// Writes a change down; a store that can't is logged, and says `false`.
    pub(super) async fn advance(&self, change: &Change) -> bool {
        let (id, epoch) = (self.attempt.attempt_id, self.attempt.epoch);
        let process = self.attempt.process.process_id;
        let written = self.world.journal.advance(id, epoch, process, change).await;
        if let Err(refusal) = &written {
            tracing::error!(attempt = %id, %refusal, ?change, "a change can't be written down");
        }
        written.is_ok()
    }

    fn for_task(&self) -> (ActorRef<Message>, Arc<World>, Attempt) {
        (self.myself.clone(), Arc::clone(&self.world), self.attempt.clone())
    }
}

/// Tells the actor from a task; one that has ended needs no telling.
fn tell(actor: &ActorRef<Message>, message: Message) {
    let _ = actor.send_message(message);
}

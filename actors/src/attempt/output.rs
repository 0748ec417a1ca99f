//! Takes what a process writes from its spool into the attempt's log, and says
//! what the conversation then asks for: a task beside the actor, so that no flood
//! is ever in front of a stop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::event::{Event, Timestamp};
use crate::ids::ProcessId;
use crate::log::{AttemptLog, LogError};
use crate::process::manifest::ExitRecord;

use super::digest::{self, Outgoing};
use super::lifecycle::Input;
use super::message::{Handle, Happening, Writer};
use super::voice::Voice;

/// Makes the closing entries, once all that the executor said is known.
pub type Closing = Arc<dyn Fn(&ExitRecord) -> Vec<(Timestamp, Event)> + Send + Sync>;

/// Between tries to take in what can't be written to the log.
const RETRY: Duration = Duration::from_secs(1);

/// One process's output.
pub struct Output {
    pub log: Arc<AttemptLog>,
    pub process: ProcessId,
    pub digest: digest::Shared,
    pub voice: Voice,
    /// The executor's session id that is written down already.
    pub session: Option<String>,
    /// Grows whenever the spool does; closed when the shim has ended.
    pub lengths: watch::Receiver<u64>,
    /// The process has ended.
    pub exit: oneshot::Receiver<(ExitRecord, Closing)>,
}

impl Output {
    /// Runs until the shim and all that may write have ended. Tells the
    /// executor's session id and the end of the turn as soon as they are seen,
    /// that the log holds everything up to the exit, and while it waits for the
    /// disk: why.
    pub async fn follow(mut self, handle: &Handle) {
        let disk = |reason| handle.tell(Happening::Disk(Writer::Log, reason));
        let mut told = self.session.clone();
        let (mut is_drained, mut has_ended) = (false, false);
        let mut is_turn_over = false;
        let mut open = true;
        let mut waits = false;
        while open || !is_drained || waits {
            tokio::select! {
                biased;
                exit = &mut self.exit, if !is_drained => {
                    has_ended = true;
                    if let Ok((exit, closing)) = exit {
                        self.finish(exit, closing, &mut waits, &disk).await;
                    }
                }
                changed = self.lengths.changed(), if open => {
                    open = changed.is_ok();
                    self.pump(&mut waits, &disk).await;
                }
                () = tokio::time::sleep(RETRY), if waits => self.pump(&mut waits, &disk).await,
            }
            waits |= !is_drained && self.converse(handle).await.is_err();
            let seen = self.digest.get();
            if let Some(id) = seen.executor_session_id.filter(|id| told.as_ref() != Some(id)) {
                told = Some(id.clone());
                handle.tell(Happening::ExecutorSession(Some(id)));
            }
            if seen.session_lost && told.take().is_some() {
                handle.tell(Happening::ExecutorSession(None));
            }
            if seen.turn_ended.is_some() && !std::mem::replace(&mut is_turn_over, true) {
                handle.tell(Happening::Life(Input::TurnEnded));
            }
            // Last of all: the next turn may begin by it, and goes on in that session.
            if has_ended && !std::mem::replace(&mut is_drained, true) {
                handle.tell(Happening::Life(Input::Drained));
            }
        }
    }

    /// Takes the steps of the conversation that have come up. One that can't be
    /// put on file now is tried again.
    async fn converse(&self, handle: &Handle) -> io::Result<()> {
        while let Some(step) = self.digest.next_outgoing() {
            match step {
                Outgoing::Say(message) => {
                    self.voice.say(message).await.inspect_err(|error| {
                        tracing::error!(process = %self.process, %error, "not said yet");
                    })?;
                }
                Outgoing::Ask(request) => {
                    handle.ask(|done| Happening::Asked(Box::new(request), done)).await;
                }
                Outgoing::Withdraw(key) => {
                    handle.ask(|done| Happening::Withdrawn(key, done)).await;
                }
            }
            self.digest.outgoing_done();
        }
        Ok(())
    }

    /// All that the spool holds now. A fault is logged and tried again, for the
    /// spool keeps the bytes: soon if it is the disk's, else with the next ones.
    async fn pump(&self, waits: &mut bool, disk: &impl Fn(Option<String>)) {
        let taken = self.take_in().await;
        if let Err(error) = &taken {
            tracing::error!(process = %self.process, %error, "the log can't be taken in");
        }
        tell_disk(&taken, waits, disk);
    }

    async fn take_in(&self) -> Result<(), LogError> {
        while self.blocking(AttemptLog::pump).await?.more {}
        Ok(())
    }

    /// Takes in the end. After it nothing comes that would bring another try, so
    /// what may pass by itself, a full disk say, is waited for.
    async fn finish(
        &self,
        exit: ExitRecord,
        closing: Closing,
        waits: &mut bool,
        disk: &impl Fn(Option<String>),
    ) {
        loop {
            let finished = self.try_finish(&exit, &closing).await;
            tell_disk(&finished, waits, disk);
            match finished {
                Ok(()) => return,
                Err(error) if may_pass(&error).is_some() => {
                    tracing::error!(process = %self.process, %error, "the log's end waits");
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => {
                    tracing::error!(process = %self.process, %error, "the log has no end");
                    return;
                }
            }
        }
    }

    async fn try_finish(&self, exit: &ExitRecord, closing: &Closing) -> Result<(), LogError> {
        self.take_in().await?;
        let (exit, closing) = (exit.clone(), Arc::clone(closing));
        self.blocking(move |log, process| {
            let lengths = (exit.stdout_bytes, exit.stderr_bytes);
            log.finish(process, lengths, exit.at, || closing(&exit))
        })
        .await
        .map(drop)
    }

    /// Runs a blocking step of the log.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AttemptLog, ProcessId) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let (log, process) = (Arc::clone(&self.log), self.process);
        let done = tokio::task::spawn_blocking(move || work(&log, process)).await;
        done.unwrap_or_else(|panic| Err(LogError::Damaged(panic.to_string())))
    }
}

/// Why the log can't be written now, if that may pass: a file that is not there
/// does not come back.
pub(super) fn may_pass(error: &LogError) -> Option<String> {
    match error {
        LogError::Io(error) if error.kind() != io::ErrorKind::NotFound => Some(error.to_string()),
        _ => None,
    }
}

/// Tells, when it begins and when it ends, that the log waits for the disk.
fn tell_disk(taken: &Result<(), LogError>, waits: &mut bool, disk: &impl Fn(Option<String>)) {
    let reason = taken.as_ref().err().and_then(may_pass);
    if reason.is_some() || *waits {
        *waits = reason.is_some();
        disk(reason);
    }
}

//! Moves what a process writes from its spool to the attempt's log, and takes the steps of
//! the conversation that follow from it. A task beside the actor, so that no stop waits for output.
//!
//! ```text
//!  spool ─ pump ─▶ log ─ normalizer ─▶ TurnSummary ─▶ events to the actor (session, end of the turn, waits)
//!                                         └ outbox ─ converse ─▶ stdin, approvals
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::blocking::lock;
use crate::executor::OnQuota;
use crate::ids::ProcessId;
use crate::log::{AttemptLog, LogError};
use crate::process::records::ExitRecord;
use crate::retry::{Backoff, PAUSE};

use super::lifecycle::{Ending, LifeEvent, StopFacts};
use super::message::{DiskWriter, TurnEvent, TurnHandle};
use super::outcome;
use super::stdin_writer::StdinWriter;
use super::turn_summary::{MODEL_QUIET, Outgoing, SharedSummary};

/// The output of one process, with all that its task needs.
pub struct Output {
    pub log: Arc<AttemptLog>,
    pub process: ProcessId,
    pub summary: SharedSummary,
    /// For the answers of a two-way protocol.
    pub stdin: StdinWriter,
    /// The executor's session id that the row has already.
    pub session: Option<String>,
    /// Changes whenever the spool may have grown; closed when the shim and all writers have ended.
    pub lengths: watch::Receiver<u64>,
    /// The record of the process's end, with the stop that may have caused it. Closed without a value: there
    /// will be none.
    pub exit: oneshot::Receiver<(ExitRecord, Option<StopFacts>)>,
}

impl Output {
    /// Runs until the process has ended and nothing can write any more. Reports the executor's session id,
    /// the end of its turn, the end of the log, and why it waits for the disk.
    pub async fn follow(mut self, handle: &TurnHandle) {
        let disk = |reason| handle.send(TurnEvent::Disk(DiskWriter::Log, reason));
        let mut known = self.session.clone();
        let (mut is_drained, mut has_ended, mut is_turn_over) = (false, false, false);
        let (mut open, mut waits) = (true, false);
        let (mut written, summary) = (Instant::now(), Arc::clone(&self.summary));
        let (mut is_quiet, mut waits_for) = (false, None);
        while open || !is_drained || waits {
            tokio::select! {
                biased;
                exit = &mut self.exit, if !is_drained => {
                    has_ended = true;
                    if let Ok((exit, stopped)) = exit {
                        let ending = Ending { exit: Some(exit.clone()), reason: None, stopped };
                        self.finish(&exit, &ending, &mut waits, &disk).await;
                    }
                }
                changed = self.lengths.changed(), if open => {
                    open = changed.is_ok();
                    (written, is_quiet) = (Instant::now(), false);
                    self.pump(&mut waits, &disk).await;
                }
                () = tokio::time::sleep(PAUSE), if waits => self.pump(&mut waits, &disk).await,
                () = tokio::time::sleep_until(written + MODEL_QUIET), if !is_quiet => is_quiet = true,
                () = quiet(&summary, written), if !has_ended => lock(&summary).end_quietly(),
            }
            waits |= !is_drained && self.converse(handle).await.is_err();
            let seen = lock(&self.summary).clone();
            let now = if has_ended { None } else { seen.waits_for(written.elapsed()) };
            if std::mem::replace(&mut waits_for, now) != now {
                handle.send(TurnEvent::WaitsFor(now));
            }
            if let Some(id) = seen.executor_session_id.filter(|id| known.as_ref() != Some(id)) {
                known = Some(id.clone());
                handle.send(TurnEvent::ExecutorSession(Some(id)));
            }
            if seen.session_lost && known.take().is_some() {
                handle.send(TurnEvent::ExecutorSession(None));
            }
            if seen.turn_ended.is_some() && !std::mem::replace(&mut is_turn_over, true) {
                handle.send(TurnEvent::Life(LifeEvent::TurnEnded));
            }
            // Last of all: `Drained` may begin the next turn, which resumes the session reported above.
            if has_ended && !std::mem::replace(&mut is_drained, true) {
                handle.send(TurnEvent::Life(LifeEvent::Drained));
            }
        }
    }

    /// Takes the steps of the conversation in their order, until one can't be put on file now. A step
    /// leaves the outbox only when it is done; after a restart it is taken again, and its key makes that
    /// harmless.
    async fn converse(&self, handle: &TurnHandle) -> io::Result<()> {
        loop {
            let step = lock(&self.summary).outbox.front().cloned();
            let Some(step) = step else { return Ok(()) };
            match step {
                Outgoing::Say(message) => {
                    self.stdin.write(message).await.inspect_err(|error| {
                        tracing::error!(process = %self.process, %error, "a message is not on file yet; it is tried again");
                    })?;
                }
                Outgoing::Ask(request) => {
                    handle.ask(|done| TurnEvent::Asked(request, done)).await;
                }
                Outgoing::Withdraw(key) => {
                    handle.ask(|done| TurnEvent::Withdrawn(key, done)).await;
                }
            }
            lock(&self.summary).outbox.pop_front();
        }
    }

    /// Reads all that the spool holds now. After a fault of the disk, `follow` tries again.
    async fn pump(&self, waits: &mut bool, disk: &impl Fn(Option<String>)) {
        let taken = self.take_in().await;
        if let Err(error) = &taken {
            tracing::error!(process = %self.process, %error, "the spool can't be read into the log");
        }
        notify_disk(&taken, waits, disk);
    }

    /// Reads the spool into the log until nothing is left.
    async fn take_in(&self) -> Result<(), LogError> {
        while self.blocking(AttemptLog::pump).await? {}
        Ok(())
    }

    /// Reads the rest and writes the closing entry. No later event would lead to another try, so this
    /// tries as long as the fault may pass.
    async fn finish(
        &self,
        exit: &ExitRecord,
        ending: &Ending,
        waits: &mut bool,
        disk: &impl Fn(Option<String>),
    ) {
        let mut backoff = Backoff::default();
        loop {
            let finished = self.try_finish(exit, ending).await;
            notify_disk(&finished, waits, disk);
            let Err(error) = finished else { return };
            if may_pass(&error).is_none() {
                tracing::error!(process = %self.process, %error, "the end of the log can't be written");
                return;
            }
            backoff
                .wait(format!("process {}: writing the end of its log", self.process), error)
                .await;
        }
    }

    /// One try. The outcome is decided here for the text of the entry alone; the actor decides it for the
    /// row.
    async fn try_finish(&self, exit: &ExitRecord, ending: &Ending) -> Result<(), LogError> {
        self.take_in().await?;
        let (at, lengths) = (exit.at, (exit.stdout_bytes, exit.stderr_bytes));
        let (summary, ending) = (self.summary.clone(), ending.clone());
        self.blocking(move |log, process| {
            log.finish(process, lengths, at, || {
                let outcome = outcome::decide(&ending, &lock(&summary), OnQuota::Never, at);
                vec![(at, outcome::process_end(&ending, &outcome))]
            })
        })
        .await
    }

    /// Does a step of the log that blocks.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AttemptLog, ProcessId) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let (log, process) = (Arc::clone(&self.log), self.process);
        let done = tokio::task::spawn_blocking(move || work(&log, process)).await;
        done.unwrap_or_else(|panic| Err(LogError::Damaged(panic.to_string())))
    }
}

/// Ends once the executor has been quiet for so long that its turn counts as ended; never if it has
/// announced no such time.
async fn quiet(summary: &SharedSummary, written: Instant) {
    let secs = lock(summary).ends_if_quiet.as_ref().map(|(secs, _)| *secs);
    match secs {
        Some(secs) => tokio::time::sleep_until(written + Duration::from_secs(secs)).await,
        None => std::future::pending().await,
    }
}

/// Why the log can't be written now, if that may pass. A file that is not there, or damage, does not pass.
pub(super) fn may_pass(error: &LogError) -> Option<String> {
    match error {
        LogError::Io(error) if error.kind() != io::ErrorKind::NotFound => Some(error.to_string()),
        _ => None,
    }
}

/// Reports when the log begins to wait for the disk, and when it no longer does.
fn notify_disk(taken: &Result<(), LogError>, waits: &mut bool, disk: &impl Fn(Option<String>)) {
    let reason = taken.as_ref().err().and_then(may_pass);
    if reason.is_some() || *waits {
        *waits = reason.is_some();
        disk(reason);
    }
}

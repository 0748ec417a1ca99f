//! Takes what a process writes from its spool into the attempt's log: a task
//! beside the actor, so that no flood is ever in front of a stop.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use crate::event::{Event, Timestamp};
use crate::ids::ProcessId;
use crate::log::{AttemptLog, LogError};
use crate::process::manifest::ExitRecord;

use super::digest;

/// Makes the closing entries, once all that the executor said is known.
pub type Closing = Box<dyn FnOnce(&ExitRecord) -> Vec<(Timestamp, Event)> + Send>;

/// One process's output.
pub struct Output {
    pub log: Arc<AttemptLog>,
    pub process: ProcessId,
    pub digest: digest::Shared,
    /// Grows whenever the spool does; closed when the shim has ended.
    pub lengths: watch::Receiver<u64>,
    /// The process has ended.
    pub exit: oneshot::Receiver<(ExitRecord, Closing)>,
}

impl Output {
    /// Runs until the shim and all that may write have ended. Tells the
    /// executor's session id as soon as it is seen, and that the log holds
    /// everything up to the exit.
    pub async fn follow(mut self, session: impl Fn(String), drained: impl FnOnce()) {
        let mut told = self.digest.get().executor_session_id;
        let mut drained = Some(drained);
        let mut open = true;
        while open || drained.is_some() {
            tokio::select! {
                biased;
                exit = &mut self.exit, if drained.is_some() => {
                    if let Ok((exit, closing)) = exit {
                        self.finish(exit, closing).await;
                    }
                    if let Some(drained) = drained.take() {
                        drained();
                    }
                }
                changed = self.lengths.changed(), if open => {
                    open = changed.is_ok();
                    self.pump().await;
                }
            }
            let seen = self.digest.get().executor_session_id;
            if let Some(id) = seen.as_ref().filter(|_| seen != told) {
                session(id.clone());
                told = seen;
            }
        }
    }

    /// All that the spool holds now.
    async fn pump(&self) {
        while let Some(more) = self.blocking(AttemptLog::pump).await
            && more.more
        {}
    }

    async fn finish(&self, exit: ExitRecord, closing: Closing) {
        let lengths = (exit.stdout_bytes, exit.stderr_bytes);
        self.pump().await;
        self.blocking(move |log, process| log.finish(process, lengths, exit.at, || closing(&exit)))
            .await;
    }

    /// Runs a blocking step of the log; a fault is logged and tried again with
    /// the next bytes, for the spool keeps them.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AttemptLog, ProcessId) -> Result<T, LogError> + Send + 'static,
    ) -> Option<T> {
        let (log, process) = (Arc::clone(&self.log), self.process);
        match tokio::task::spawn_blocking(move || work(&log, process)).await {
            Ok(Ok(done)) => Some(done),
            Ok(Err(error)) => {
                tracing::error!(%process, %error, "the log can't be taken in");
                None
            }
            Err(error) => {
                tracing::error!(%process, %error, "taking in the log panicked");
                None
            }
        }
    }
}

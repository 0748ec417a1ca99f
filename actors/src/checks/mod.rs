//! Runs a project's checks on work that was reported done, and on what a merge would give.
//!
//! ```text
//!  report ─▶ freeze the submission ─▶ one transaction: the report, the run
//!                                                  │ Planned: "read the rows", which alone count
//!                                                  ▼
//!  Checks ── open runs in order, max_running at once ──▶ run: a task
//!
//!  a run:  planned ─checkout─▶ check ─▶ receipt ─▶ … ─▶ concluded ─────────────────▶ closed
//!             ▲                  │ stopped, or end unknown   │ rework: notify the worker ▲
//!             └──────────────────┘ (3 tries)                 └─────────────────────────────┘
//! ```
//!
//! * A run changes nothing in the person's repositories: uncommitted work is frozen as a commit whose
//!   objects lie in the run's own folder ([`folder`]). All checks of a run share one checkout, one after
//!   the other.
//! * Each step is written down before the next one begins, so the next daemon adopts the checks that
//!   run. A check that was stopped, or whose end is unknown, runs again.
//! * A finish (`attempt/finish`) plans a run on the commits that a merge computed. Such a run changes no
//!   task; the finish waits for the verdict.
//! * A run whose task panics stays open, and this daemon does not try it again: the next one does.

pub mod folder;
mod process;
mod submission;

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::task::{AbortHandle, JoinHandle};

pub use folder::tidy;
pub use submission::{FrozenSubmission, freeze_submission};

use crate::blocking::blocking;
use crate::gateway::{self, GatewayMessage};
use crate::ids::CheckRunId;
use crate::journal::checks::{CheckOutcome, contradiction};
use crate::journal::{CheckRun, CheckVerdict, Key, Receipt};
use crate::log::tail::tail;
use crate::refusal::Refusal;
use crate::retry::{Backoff, until_done};
use crate::task::spawn;
use crate::world::World;
use folder::Folder;
use process::CheckProcess;

/// Lines of a failed check's output, from its end, that the worker is sent; [`BYTES_MAX`] limits their
/// bytes.
const LINES: usize = 40;
/// Of the end of the output, see [`LINES`].
const BYTES_MAX: usize = 8 << 10;

/// What the actor is sent: by the domain and the daemon, and from `Read` on by the actor's own tasks.
pub enum ChecksMessage {
    /// A run may have been planned: read the open runs. Sending it once too often is harmless.
    Planned,
    /// Kills the running checks and begins no more, for a shutdown that stops everything. The answer has
    /// a sentence for each check that may have survived; it is empty when all are dead.
    StopAll(RpcReplyPort<Vec<String>>),
    /// Begins runs again: a shutdown was given up because something could not be stopped.
    GoOn,

    /// The open runs, in the order in which they begin.
    Read(Vec<CheckRun>),
    /// The task of a run has ended; `true`: it panicked.
    Ended(CheckRunId, bool),
}

/// The actor that owns the check runs. At most `[checks] max_running` runs are carried out at once.
pub struct Checks;

/// Which runs are carried out now. Everything else about a run is in its row.
pub struct ChecksState {
    myself: ActorRef<ChecksMessage>,
    world: Arc<World>,
    gateway: ActorRef<GatewayMessage>,
    /// By run: the run, the handle that aborts its task, and the task that reports its end.
    running: HashMap<CheckRunId, (CheckRun, AbortHandle, JoinHandle<()>)>,
    /// Runs whose task panicked. The next daemon takes them up.
    failed: HashSet<CheckRunId>,
    /// Between [`ChecksMessage::StopAll`] and [`ChecksMessage::GoOn`]: no run begins.
    is_stopping: bool,
}

impl Actor for Checks {
    type Msg = ChecksMessage;
    type State = ChecksState;
    type Arguments = (Arc<World>, ActorRef<GatewayMessage>);

    async fn pre_start(
        &self,
        myself: ActorRef<ChecksMessage>,
        (world, gateway): Self::Arguments,
    ) -> Result<ChecksState, ActorProcessingErr> {
        let (running, failed) = (HashMap::new(), HashSet::new());
        let (planned, owner) = (Arc::clone(&world), myself.clone());
        // A finish signals a run that it has planned. This task sends the signal on as a message until
        // the actor is gone.
        spawn(async move {
            loop {
                planned.check_signals.planned.notified().await;
                if owner.send_message(ChecksMessage::Planned).is_err() {
                    return;
                }
            }
        });
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
            ChecksMessage::Ended(run, has_panicked) => state.ended(run, has_panicked),
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
    /// Reads the open runs in a task, however long the store is away, and sends them as
    /// [`ChecksMessage::Read`].
    fn read(&self) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        spawn(async move {
            let open = until_done("reading the check runs", || world.journal.open_checks()).await;
            let _ = myself.send_message(ChecksMessage::Read(open));
        });
    }

    /// Begins the open runs for which there is room. The rest begins when a run ends, by another read.
    fn begin(&mut self, open: Vec<CheckRun>) {
        for run in open {
            let is_full = self.running.len() >= self.world.settings.checks.max_running.max(1);
            if is_full || self.is_stopping {
                return;
            }
            if !self.running.contains_key(&run.run_id) && !self.failed.contains(&run.run_id) {
                let (task, report) = self.carry_out(run.clone());
                self.running.insert(run.run_id, (run, task, report));
            }
        }
    }

    /// Starts the task of a run, which repeats the run's remaining steps until the journal has taken them
    /// all, and a second task that reports the end of the first one, even after a panic or an abort.
    fn carry_out(&self, mut run: CheckRun) -> (AbortHandle, JoinHandle<()>) {
        let (world, gateway) = (Arc::clone(&self.world), self.gateway.clone());
        let (myself, id) = (self.myself.clone(), run.run_id);
        let task = spawn(async move {
            let mut backoff = Backoff::default();
            while let Err(refusal) = carry_out(&world, &gateway, &mut run).await {
                backoff.wait(format!("check run {id}"), refusal).await;
            }
        });
        let abort = task.abort_handle();
        let report = async move {
            let has_panicked = task.await.is_err_and(|error| error.is_panic());
            let _ = myself.send_message(ChecksMessage::Ended(id, has_panicked));
        };
        (abort, spawn(report))
    }

    /// Frees the place of a run, and looks for the next one.
    fn ended(&mut self, run: CheckRunId, has_panicked: bool) {
        self.running.remove(&run);
        if has_panicked {
            self.failed.insert(run);
        }
        self.read();
    }

    /// Run by run, aborts the task and then kills the processes of its checks. The rows stay open: a
    /// stopped check runs again later.
    fn stop_all(&mut self, port: RpcReplyPort<Vec<String>>) {
        self.is_stopping = true;
        let (world, running) = (Arc::clone(&self.world), std::mem::take(&mut self.running));
        spawn(async move {
            let mut alive = Vec::new();
            for (run, task, report) in running.into_values() {
                task.abort();
                // The report waits until the task has ended. From here on no other task touches the
                // processes of the run.
                let _ = report.await;
                for check in &run.checks {
                    alive.extend(CheckProcess::new(&world, &run, check).halt().await);
                }
            }
            let _ = port.send(alive);
        });
    }
}

/// Carries out the remaining steps of a run: each check with its receipt, the verdict, the worker's
/// notification, the removal of the checkout. Safe to call again after any step.
///
/// # Errors
/// The journal or the gateway refused; the caller tries again later.
async fn carry_out(
    world: &Arc<World>,
    gateway: &ActorRef<GatewayMessage>,
    run: &mut CheckRun,
) -> Result<(), Refusal> {
    while let Some(check) = run.checks.get(run.receipts.len()) {
        let receipt = CheckProcess::new(world, run, check).receipt().await;
        world.journal.keep_receipt(run.run_id, &receipt).await?;
        run.receipts.push(receipt);
    }
    let verdict = world.journal.conclude_checks(run.run_id).await?;
    tracing::info!(run = %run.run_id, task = %run.task_id, ?verdict, "a run of checks has ended");
    world.check_signals.concluded.notify_waiters();
    if verdict == CheckVerdict::Rework && run.finish_id.is_none() {
        notify(gateway, world, run).await?;
    }
    if let Err(error) = Folder::of(world, run.run_id).strip().await {
        tracing::warn!(run = %run.run_id, %error, "its checkout can't be removed");
    }
    world.journal.close_checks(run.run_id).await
}

/// Sends the worker a follow-up with the failed checks and the end of their output. The key is the run's,
/// so that a repeated call sends only one. Nothing is sent where no attempt reported, or where it was
/// stopped.
///
/// # Errors
/// The gateway could not take it now; it may work later.
async fn notify(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    run: &CheckRun,
) -> Result<(), Refusal> {
    let Some(attempt) = run.attempt_id else { return Ok(()) };
    let mut outputs = Vec::new();
    for receipt in run.receipts.iter().filter(|it| it.outcome != CheckOutcome::Passed) {
        outputs.push((receipt, output(receipt).await));
    }
    let key = Key::new("checks", run.run_id.to_string(), &run.run_id);
    gateway::notify_worker(gateway, world, key, attempt, message(run, &outputs)).await.map(drop)
}

/// The end of a check's output; empty where it has none or it can't be read.
async fn output(receipt: &Receipt) -> String {
    let Some(dir) = receipt.log.clone().map(PathBuf::from) else { return String::new() };
    let text = blocking(move || tail(&dir, BYTES_MAX)).await.unwrap_or_default().text;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The text of the follow-up.
fn message(run: &CheckRun, failed: &[(&Receipt, String)]) -> String {
    let mut text = format!(
        "Your report that {} ({}) is done was checked, and the checks did not pass. Work on the \
         task again.\n",
        run.task_handle, run.task_title
    );
    if let Some(contradiction) = contradiction(run.claims_passed, &run.receipts) {
        let _ = writeln!(text, "{contradiction}");
    }
    for (receipt, output) in failed {
        let _ = write!(text, "\nThe {receipt}: {}\n", receipt.command);
        if !output.is_empty() {
            let _ = write!(text, "The end of its output:\n```\n{output}\n```\n");
        }
    }
    text.push_str(
        "\nThe checks ran in a clean checkout of your work as it was at the report, without files \
         that git ignores. Fix the work, then report again.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Timestamp;
    use crate::ids::{CheckRunId, TaskId};

    #[test]
    fn the_message_says_what_failed_and_how_it_ended() {
        let receipt = Receipt {
            name: "test".to_owned(),
            command: "cargo test".to_owned(),
            outcome: CheckOutcome::Failed,
            reason: None,
            exit_code: Some(101),
            exit_signal: None,
            duration_ms: 5,
            log: None,
            sandbox: None,
            at: Timestamp::from_millis(0),
        };
        let run = CheckRun {
            run_id: CheckRunId::new(),
            finish_id: None,
            task_id: TaskId::new(),
            task_handle: "TASK-001".to_owned(),
            task_title: "Fix it".to_owned(),
            attempt_id: None,
            repos: vec![],
            checks: vec![],
            is_empty_diff: None,
            claims_passed: true,
            receipts: vec![receipt],
            verdict: None,
        };
        let text = message(&run, &[(&run.receipts[0], "1 failed".to_owned())]);
        let expected = "The report says that all tests passed; check `test` exited with 101.\n\n\
             The check `test` exited with 101: cargo test\nThe end of its output:\n```\n1 failed\n```";
        assert!(text.contains(expected), "{text}");
    }
}

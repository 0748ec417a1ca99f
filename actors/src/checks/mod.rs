//! Checks on reports of completion: runs a project's checks on the work that was
//! reported done.
//!
//! ```text
//!  report ─▶ freeze the submission ─▶ one transaction: the report, the run
//!                                                  │ Planned (a hint; the rows are the truth)
//!                                                  ▼
//!  Checks ── open runs in order, max_running at once ──▶ run: a task
//!
//!  a run:  planned ─checkout─▶ check ─▶ receipt ─▶ … ─▶ concluded ─────────────────▶ closed
//!             ▲                  │ stopped, or end unknown   │ rework: notify the worker ▲
//!             └──────────────────┘ (3 tries)                 └─────────────────────────────┘
//! ```
//!
//! * Nothing of the user's is changed: uncommitted work is frozen as a commit among objects
//!   of the run's own; see [`folder`]. All checks run one after the other in one checkout.
//! * Each step is written down before the next one, so the next daemon adopts the checks
//!   that run. A check that was stopped, or whose end is unknown, runs anew.
//! * A finish (`attempt/finish`) plans a run on what a merge would give. It touches no task;
//!   the finish waits for the verdict.

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

/// Lines of a check's output in the message, and most bytes of them.
const LINES: usize = 40;
const BYTES_MAX: usize = 8 << 10;

pub enum ChecksMessage {
    /// A run may have been planned.
    Planned,
    /// Kills what runs and begins no more. The answer names possible survivors.
    StopAll(RpcReplyPort<Vec<String>>),
    /// Runs may begin again: not all could be stopped, so the daemon goes on.
    GoOn,

    Read(Vec<CheckRun>),
    /// A run's task has ended; `true`: it panicked.
    Ended(CheckRunId, bool),
}

/// The actor that owns the check runs.
pub struct Checks;

pub struct ChecksState {
    myself: ActorRef<ChecksMessage>,
    world: Arc<World>,
    gateway: ActorRef<GatewayMessage>,
    /// Each with the task that carries it out, and the one that reports its end.
    running: HashMap<CheckRunId, (CheckRun, AbortHandle, JoinHandle<()>)>,
    /// Those whose task panicked: left to the next daemon.
    failed: HashSet<CheckRunId>,
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
    fn read(&self) {
        let (myself, world) = (self.myself.clone(), Arc::clone(&self.world));
        spawn(async move {
            let open = until_done("reading the check runs", || world.journal.open_checks()).await;
            let _ = myself.send_message(ChecksMessage::Read(open));
        });
    }

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

    fn ended(&mut self, run: CheckRunId, has_panicked: bool) {
        self.running.remove(&run);
        if has_panicked {
            self.failed.insert(run);
        }
        self.read();
    }

    fn stop_all(&mut self, port: RpcReplyPort<Vec<String>>) {
        self.is_stopping = true;
        let (world, running) = (Arc::clone(&self.world), std::mem::take(&mut self.running));
        spawn(async move {
            let mut alive = Vec::new();
            for (run, task, report) in running.into_values() {
                task.abort();
                // From here on no other task touches its processes.
                let _ = report.await;
                for check in &run.checks {
                    alive.extend(CheckProcess::new(&world, &run, check).halt().await);
                }
            }
            let _ = port.send(alive);
        });
    }
}

/// Carries out the remaining steps of a run: each check with its receipt, the verdict, the
/// worker's notification. A refusal is the journal's: try again later.
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

/// Notifies the worker, if there is one and it was not stopped.
///
/// # Errors
/// It may work later.
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

async fn output(receipt: &Receipt) -> String {
    let Some(dir) = receipt.log.clone().map(PathBuf::from) else { return String::new() };
    let text = blocking(move || tail(&dir, BYTES_MAX)).await.unwrap_or_default().text;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

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

//! The checks of a task that is reported as done: what is delivered is frozen before the report is
//! written, and checked after it.

use std::path::PathBuf;

use provost_actors::checks::{self, FrozenSubmission};
use provost_actors::ids::TaskId;
use provost_actors::journal::checks::{CheckRun, CheckedRepo, Receipt, contradiction};
use provost_actors::log::tail::{Tail, tail};

use crate::api::commands::{CheckLog, CheckLogParams};
use crate::api::worker::report::{CheckReceipt, CheckedReport, Flag};
use crate::api::{Code, Idempotent, Refusal};
use crate::domain::{Domain, blocking};
use crate::work::Worker;
use crate::work::report::Said;

/// Longest end of a check's output that is returned, in bytes.
const LOG_MAX: usize = 1 << 20;

impl Domain {
    /// Freezes what the caller reports as done, as it is now. `None`: it reports something else, or the
    /// task is closed or not one whose work is checked. The report's transaction records it; after that,
    /// [`reported`](Self::reported) has it checked. If the report fails, the value is dropped, and
    /// removes what was frozen.
    pub(super) async fn freeze_submission(
        &self,
        worker: &Worker,
        task: &str,
        said: Said,
    ) -> Result<Option<FrozenSubmission>, Refusal> {
        if said != Said::Done {
            return Ok(None);
        }
        let Some(task) = self.store.to_be_checked(worker, task).await? else { return Ok(None) };
        let latest = self.store.task(task).await?.summary.latest_attempt_id;
        let freezing = checks::freeze_submission(&self.world, task, worker.attempt_id, latest);
        Box::pin(freezing).await.map(Some)
    }

    /// Starts the checks of a report that has just been written. A repeated call starts nothing.
    pub(super) fn reported<T>(&self, frozen: Option<FrozenSubmission>, answer: &Idempotent<T>) {
        if let Some(frozen) = frozen
            && !answer.deduplicated
            && !frozen.submission.checks.is_empty()
        {
            frozen.keep();
            // A failure means that the daemon ends. The next daemon finds the planned run in the store.
            let _ = self.checks.send_message(checks::ChecksMessage::Planned);
        }
    }

    /// What the checks of the last report found. Empty if the task was never reported as done.
    pub(in crate::domain) async fn checked_report(
        &self,
        task: TaskId,
    ) -> Result<CheckedReport, Refusal> {
        let last = self.store.last_run(task).await?;
        Ok(last.map(to_output).unwrap_or_default())
    }

    /// The end of the output of one check of the task's last run.
    ///
    /// # Errors
    /// The last run has no such check, or the check has no output.
    pub(in crate::domain) async fn check_log(
        &self,
        params: CheckLogParams,
    ) -> Result<CheckLog, Refusal> {
        let CheckLogParams { task_id: task, name } = params;
        let receipts = self.store.last_run(task).await?.map(|run| run.receipts).unwrap_or_default();
        let receipt = receipts.iter().find(|receipt| receipt.name == name);
        let Some(dir) = receipt.and_then(|receipt| receipt.log.clone()) else {
            let message = format!("there is no output of a check {name:?} of task {task}");
            return Err(Refusal::new(Code::FileNotFound, message)
                .hint("Call get_task with the task_id: its receipts name them."));
        };
        let tail = blocking(move || tail(&PathBuf::from(dir), LOG_MAX)).await?;
        tail.map(|Tail { text, is_cut }| CheckLog { text, is_cut })
            .map_err(|error| Refusal::internal(format!("a check's output: {error}")))
    }
}

/// The checks of a report. With several repositories, the commit is `NAME@COMMIT` of each.
fn to_output(run: CheckRun) -> CheckedReport {
    let commit = match run.repos.as_slice() {
        [only] => only.commit.clone(),
        several => {
            let each = |repo: &CheckedRepo| format!("{}@{}", repo.name, repo.commit);
            several.iter().map(each).collect::<Vec<_>>().join(" ")
        }
    };
    let includes_uncommitted = run.repos.iter().any(|repo| repo.includes_uncommitted);
    CheckedReport {
        contradiction: contradiction(run.claims_passed, &run.receipts),
        flags: if run.is_empty_diff == Some(true) { vec![Flag::EmptyDiff] } else { Vec::new() },
        receipts: run
            .receipts
            .into_iter()
            .map(|receipt: Receipt| CheckReceipt {
                name: receipt.name,
                command: receipt.command,
                commit: commit.clone(),
                includes_uncommitted,
                outcome: receipt.outcome,
                reason: receipt.reason,
                exit_code: receipt.exit_code,
                exit_signal: receipt.exit_signal,
                duration_ms: receipt.duration_ms,
                log: receipt.log,
                sandbox: receipt.sandbox,
                at: receipt.at,
            })
            .collect(),
    }
}

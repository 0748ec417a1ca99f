//! Notifies the worker whose report failed its checks: once, as a follow-up of its
//! attempt, unless the attempt was stopped.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use ractor::ActorRef;

use crate::blocking::blocking;
use crate::gateway::{self, GatewayMessage};
use crate::journal::checks::{CheckOutcome, contradiction};
use crate::journal::{CheckRun, Key, Receipt};
use crate::log::tail::tail;
use crate::payload;
use crate::refusal::Refusal;
use crate::world::World;

/// Lines of a check's output in the message, and most bytes of them.
const LINES: usize = 40;
const BYTES_MAX: usize = 8 << 10;

/// Notifies the worker, if there is one and it was not stopped.
///
/// # Errors
/// It may work later.
pub async fn worker(
    gateway: &ActorRef<GatewayMessage>,
    world: &Arc<World>,
    run: &CheckRun,
) -> Result<(), Refusal> {
    let Some(attempt) = run.attempt_id else { return Ok(()) };
    let mut outputs = Vec::new();
    for receipt in run.receipts.iter().filter(|it| it.outcome != CheckOutcome::Passed) {
        outputs.push((receipt, output(receipt).await));
    }
    let key = Key {
        tool: "checks",
        request_id: run.run_id.to_string(),
        payload_hash: payload::hash(&run.run_id),
        resolved_hash: None,
    };
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
        "Your report that {} ({}) is done was checked, and does not hold. It is to be worked on \
         again.\n",
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
        "\nIt was run in a clean checkout of your work as it was at the report: what git ignores \
         was not there. Mend it, then report again.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Timestamp;
    use crate::ids::{CheckRunId, TaskId};

    #[test]
    fn a_worker_is_told_what_failed_and_how_it_ended() {
        let receipt = Receipt {
            name: "test".to_owned(),
            command: "cargo test".to_owned(),
            outcome: CheckOutcome::Failed,
            reason: None,
            exit_code: Some(101),
            exit_signal: None,
            duration_ms: 5,
            log: None,
            at: Timestamp::from_millis(0),
        };
        let run = CheckRun {
            run_id: CheckRunId::new(),
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

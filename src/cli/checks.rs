//! `provost checks`: the results of a task's checks, which ran when it was reported done.

use super::prelude::*;
use super::project::ProjectArg;
use super::task;
use crate::api::worker::report::{CheckReceipt, Flag};

/// The fields of a task that `--json` prints.
const FIELDS: [&str; 7] =
    ["task_id", "title", "status", "standing", "receipts", "contradiction", "flags"];

#[derive(clap::Args, Debug)]
pub struct ChecksArgs {
    /// The task: its handle, such as TASK-001, or 8 or more characters of its id
    task: String,
    /// Print the last MiB of this check's output instead
    #[arg(long, value_name = "NAME")]
    log: Option<String>,
    #[command(flatten)]
    project: ProjectArg,
}

/// `provost checks`: the receipts of the task's last run, or with `--log` the end of a check's output.
pub async fn checks(context: &mut Context, args: &ChecksArgs) -> Result<Exit, Failure> {
    let task = task::named(context, &args.task, args.project.name()).await?;
    if let Some(name) = &args.log {
        let log = context.call::<CheckLog>(json!({"task_id": task, "name": name})).await?;
        return context.show(&log, |out, it| it.text.lines().try_for_each(|line| out.line(line)));
    }
    let found = context.call::<GetTaskOutput>(json!({"task_id": task})).await?;
    let fields: Value =
        FIELDS.iter().map(|key| ((*key).to_owned(), found.json["task"][key].clone())).collect();
    let out = &mut context.out;
    if out.as_json(&fields)? {
        return Ok(Exit::Done);
    }
    let (task, report) = (&found.task.task.summary, &found.task.report);
    let columns = ["CHECK", "OUTCOME", "EXIT", "TOOK", "COMMIT", "COMMAND"];
    out.list(&columns, report.receipts.iter().map(row), "no check of this task has been run")?;
    let state = task.standing.map_or_else(|| word(&task.status), |standing| word(&standing));
    out.line(&format!("the task is {state}"))?;
    if let Some(contradiction) = &report.contradiction {
        out.line(contradiction)?;
    }
    if report.flags.contains(&Flag::EmptyDiff) {
        out.line("it was reported done, but nothing was changed")?;
    }
    Ok(Exit::Done)
}

/// A row of the table. A `+` after the commit means that uncommitted changes were part of the check.
fn row(receipt: &CheckReceipt) -> Vec<String> {
    let exit = match (receipt.exit_code, receipt.exit_signal) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => receipt.reason.clone().unwrap_or_default(),
    };
    let millis = receipt.duration_ms;
    let commit: String = receipt.commit.chars().take(12).collect();
    let mark = if receipt.includes_uncommitted { "+" } else { "" };
    vec![
        receipt.name.clone(),
        word(&receipt.outcome),
        exit,
        format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        format!("{commit}{mark}"),
        receipt.command.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_how_a_check_ended_and_on_which_commit() {
        let receipt = json!({"name": "test", "outcome": "failed", "exit_code": 101,
            "exit_signal": null, "duration_ms": 12_345, "includes_uncommitted": true,
            "commit": "0123456789abcdef0123456789abcdef01234567", "command": "cargo test",
            "at": "2026-01-01T00:00:00Z"});
        let receipt = serde_json::from_value(receipt).unwrap();
        assert_eq!(row(&receipt).join("|"), "test|failed|101|12.3s|0123456789ab+|cargo test");
    }
}

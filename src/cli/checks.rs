//! `provost checks`: what the checks of a task found when it was reported done.

use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::harmless;
use super::task;

#[derive(clap::Args, Debug)]
pub struct ChecksArgs {
    /// The task: its handle, such as TASK-001, or 8 or more characters of its id
    task: String,
    /// Print the last MiB of this check's output instead
    #[arg(long, value_name = "NAME")]
    log: Option<String>,
    /// The project's name, or 8 or more characters of its id
    #[arg(long)]
    project: Option<String>,
}

pub async fn checks(context: &mut Context, args: &ChecksArgs) -> Result<Exit, Failure> {
    let task = task::named(context, &args.task, args.project.as_deref()).await?;
    match &args.log {
        Some(name) => log(context, &task, name).await,
        None => receipts(context, &task).await,
    }
}

async fn log(context: &mut Context, task: &str, name: &str) -> Result<Exit, Failure> {
    let params = json!({"task_id": task, "name": name});
    let told = context.client().await?.method("provost/check_log", params).await?;
    if context.out.is_json() {
        context.out.json(&told)?;
    } else {
        for line in text(&told, "text").lines() {
            context.out.line(&harmless(line))?;
        }
    }
    Ok(Exit::Done)
}

async fn receipts(context: &mut Context, task: &str) -> Result<Exit, Failure> {
    let mut told = context.tool("get_task", json!({"task_id": task})).await?;
    let task = told["task"].take();
    let keys = ["task_id", "title", "status", "standing", "receipts", "contradiction", "flags"];
    if context.out.is_json() {
        let told: Value = keys.iter().map(|key| ((*key).to_owned(), task[*key].clone())).collect();
        context.out.json(&told)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> =
        task["receipts"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        context.out.line("no check of this task has been run")?;
    } else {
        let columns = ["CHECK", "OUTCOME", "EXIT", "TOOK", "COMMIT", "COMMAND"];
        context.out.table(&columns, &rows)?;
    }
    let standing = match text(&task, "standing") {
        "" => text(&task, "status"),
        standing => standing,
    };
    context.out.line(&format!("the task is {standing}"))?;
    if let Some(contradiction) = task["contradiction"].as_str() {
        context.out.line(&harmless(contradiction))?;
    }
    if task["flags"].as_array().is_some_and(|flags| flags.contains(&json!("empty_diff"))) {
        context.out.line("it was reported done, but nothing was changed")?;
    }
    Ok(Exit::Done)
}

fn row(receipt: &Value) -> Vec<String> {
    let exit = match (receipt["exit_code"].as_i64(), receipt["exit_signal"].as_i64()) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => text(receipt, "reason").to_owned(),
    };
    let millis = receipt["duration_ms"].as_u64().unwrap_or_default();
    let commit: String = text(receipt, "commit").chars().take(12).collect();
    let mark = if receipt["includes_uncommitted"] == json!(true) { "+" } else { "" };
    vec![
        text(receipt, "name").to_owned(),
        text(receipt, "outcome").to_owned(),
        harmless(&exit),
        format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        format!("{commit}{mark}"),
        harmless(text(receipt, "command")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_how_a_check_ended_and_on_what() {
        let receipt = json!({"name": "test", "outcome": "failed", "exit_code": 101,
            "exit_signal": null, "duration_ms": 12_345, "includes_uncommitted": true,
            "commit": "0123456789abcdef0123456789abcdef01234567", "command": "cargo test"});
        assert_eq!(row(&receipt).join("|"), "test|failed|101|12.3s|0123456789ab+|cargo test");
    }
}

//! `provost run`: a task and its first attempt, in one go.

use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{headline, short};
use super::{logs, project};

/// The longest title that is made of a prompt, in characters.
const TITLE: usize = 80;

/// The executor that needs no program and no key.
const FAKE: &str = "fake";

#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// What the agent is asked to do; its first line becomes the task's title
    prompt: String,
    /// A project's name or id [default: the one of this repository, or the only one]
    #[arg(long)]
    project: Option<String>,
    /// An executor of `provost call list_executors` [default: the only available one besides
    /// `fake`; `fake` when there is none]
    #[arg(long)]
    executor: Option<String>,
    /// A variant of the executor [default: the executor's own]
    #[arg(long)]
    variant: Option<String>,
    /// Print the log until the attempt has settled; exit with 7 if it failed
    #[arg(long)]
    follow: bool,
}

pub async fn run(context: &mut Context, args: RunArgs) -> Result<Exit, Failure> {
    let title = headline(&args.prompt, TITLE);
    if title.is_empty() {
        return Err(Failure::Usage("the prompt is empty".to_owned()));
    }
    let project = project::choose(context, args.project.as_deref()).await?;
    let executor = match args.executor {
        Some(executor) => executor,
        None => default_executor(&context.read("list_executors", &json!({})).await?)?,
    };
    let task = json!({"project_id": project, "title": title, "description": args.prompt});
    let task = context.tool("create_task", task).await?;
    let mut start =
        json!({"task_id": task["task_id"], "executor": executor, "prompt": args.prompt});
    if let Some(variant) = args.variant {
        start["variant"] = json!(variant);
    }
    let started = context.tool("start_task_attempt", start).await?;
    let attempt = text(&started, "attempt_id");
    if args.follow {
        anstream::eprintln!("attempt {}", short(attempt));
        let settled = logs::follow(context, attempt).await?;
        return Ok(if text(&settled, "state") == "failed" {
            Exit::AttemptFailed
        } else {
            Exit::Done
        });
    }
    if context.out.is_json() {
        context.out.json(&started)?;
    } else {
        context.out.line(attempt)?;
    }
    Ok(Exit::Done)
}

/// The executor that is meant where none is named. Between several real ones
/// only the person can choose.
fn default_executor(listed: &Value) -> Result<String, Failure> {
    let executors = listed["executors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let available = executors.iter().filter(|each| each["available"] == json!(true));
    let names: Vec<&str> = available.map(|each| text(each, "executor")).collect();
    let real: Vec<&str> = names.iter().copied().filter(|name| *name != FAKE).collect();
    match real.as_slice() {
        [] => Ok(FAKE.to_owned()),
        [only] => Ok((*only).to_owned()),
        several => Err(Failure::Usage(format!(
            "which executor? Give one with --executor: {}",
            several.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(executors: &[(&str, bool)]) -> Result<String, String> {
        let executors: Vec<Value> = executors
            .iter()
            .map(|(name, available)| json!({"executor": name, "available": available}))
            .collect();
        default_executor(&json!({"executors": executors})).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_only_available_executor_is_meant_and_else_the_fake() {
        assert_eq!(
            chosen(&[("fake", true), ("claude", true), ("codex", false)]).unwrap(),
            "claude"
        );
        assert_eq!(chosen(&[("fake", true), ("codex", false)]).unwrap(), "fake");
        let several = chosen(&[("claude", true), ("codex", true), ("fake", true)]).unwrap_err();
        assert!(several.ends_with("--executor: claude, codex"), "{several}");
    }
}

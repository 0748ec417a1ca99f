//! `provost run`: a task and its first attempt, in one go; and how an attempt is started,
//! which `provost task start` does too.

use provost_actors::refusal::{Code, Refusal};
use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, headline, short};
use super::{logs, project};
use crate::client::ClientError;

/// The longest title that is made of a prompt, in characters.
const TITLE: usize = 80;

/// The executor that only stands in for an agent: no default ever picks it.
pub const FAKE: &str = "fake";

#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// What the agent is asked to do; its first line becomes the task's title
    prompt: String,
    /// A project's name or id [default: the one of this repository, or the only one]
    #[arg(long)]
    project: Option<String>,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Who works on a task.
#[derive(clap::Args, Debug)]
pub struct AgentArgs {
    /// An executor (see `provost executors`) [default: the only one that is installed]
    #[arg(long, value_name = "NAME")]
    executor: Option<String>,
    /// A variant of the executor [default: the executor's own]
    #[arg(long, value_name = "NAME")]
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
    let project = project::choose_aloud(context, args.project.as_deref()).await?;
    let executor = executor(context, &args.agent).await?;
    let task = json!({"project_id": project, "title": title, "description": args.prompt});
    let task = context.tool("create_task", task).await?;
    let start = json!({"task_id": task["task_id"], "executor": executor, "prompt": args.prompt});
    match start_attempt(context, start, &args.agent).await {
        // A run that did not begin leaves nothing on the board.
        Err(refused @ Failure::Client(ClientError::Refused(_))) => {
            context.tool("delete_task", json!({"task_id": task["task_id"]})).await?;
            Err(refused)
        }
        started => show(context, &started?, &args.agent).await,
    }
}

/// Starts an attempt at a task that is there, and shows it as `run` does.
pub async fn start(
    context: &mut Context,
    mut start: Value,
    agent: &AgentArgs,
) -> Result<Exit, Failure> {
    start["executor"] = json!(executor(context, agent).await?);
    let started = start_attempt(context, start, agent).await?;
    show(context, &started, agent).await
}

async fn start_attempt(
    context: &mut Context,
    mut start: Value,
    agent: &AgentArgs,
) -> Result<Value, Failure> {
    if let Some(variant) = &agent.variant {
        start["variant"] = json!(variant);
    }
    context.tool("start_task_attempt", start).await
}

/// Prints the id: in full for programs, as `ps` does for people; or follows the log.
async fn show(context: &mut Context, started: &Value, agent: &AgentArgs) -> Result<Exit, Failure> {
    let attempt = text(started, "attempt_id");
    if agent.follow {
        anstream::eprintln!("attempt {}", short(attempt));
        let settled = logs::follow(context, attempt).await?;
        let failed = text(&settled, "state") == "failed";
        return Ok(if failed { Exit::AttemptFailed } else { Exit::Done });
    }
    if context.out.is_json() {
        context.out.json(started)?;
    } else {
        let is_read = context.out.is_terminal();
        context.out.line(if is_read { short(attempt) } else { attempt })?;
    }
    Ok(Exit::Done)
}

/// The executor that was named or is meant, once it is known to be able to start.
async fn executor(context: &mut Context, agent: &AgentArgs) -> Result<String, Failure> {
    let executor = match &agent.executor {
        Some(executor) => executor.clone(),
        None => default_executor(&context.read("list_executors", &json!({})).await?)?,
    };
    let params = json!({"executor": executor, "variant": agent.variant});
    context.client().await?.method("provost/check_executor", params).await?;
    Ok(executor)
}

/// The executor that is meant where none is named: the only one that is installed. Between
/// several only the person can choose, and a stand-in is never meant.
fn default_executor(listed: &Value) -> Result<String, Failure> {
    let executors = listed["executors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let agents = executors
        .iter()
        .filter(|each| each["stand_in"] != json!(true) && text(each, "executor") != FAKE);
    let (available, missing): (Vec<&Value>, Vec<&Value>) =
        agents.partition(|each| each["available"] == json!(true));
    let names = |of: &[&Value]| {
        of.iter().map(|each| harmless(text(each, "executor"))).collect::<Vec<_>>().join(", ")
    };
    match available.as_slice() {
        [only] => Ok(text(only, "executor").to_owned()),
        [] => Err(none_installed(&names(&missing), &missing)),
        several => Err(Failure::Usage(format!(
            "which executor? Give one with --executor: {}",
            names(several)
        ))),
    }
}

fn none_installed(names: &str, missing: &[&Value]) -> Failure {
    let install = missing.iter().map(|each| text(each, "install")).find(|way| !way.is_empty());
    let install = install.map_or(String::new(), |way| format!(", such as `{}`", harmless(way)));
    let refusal = Refusal::new(
        Code::ExecutorUnavailable,
        format!("none of the coding agents that Provost knows is installed: {names}"),
    );
    Failure::Refused(Box::new(refusal.hint(format!(
        "Install one{install}; `provost executors` shows how. To try Provost without an agent, \
         run again with `--executor {FAKE}`: a stand-in that only does what its prompt says."
    ))))
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
    fn the_only_installed_executor_is_meant_and_never_the_stand_in() {
        assert_eq!(
            chosen(&[("fake", true), ("claude", true), ("codex", false)]).unwrap(),
            "claude"
        );
        let none = chosen(&[("fake", true), ("claude", false), ("codex", false)]).unwrap_err();
        assert!(none.ends_with("is installed: claude, codex."), "{none}");
        let several = chosen(&[("claude", true), ("codex", true), ("fake", true)]).unwrap_err();
        assert!(several.ends_with("--executor: claude, codex"), "{several}");
        let listed = json!({"executors": [
            {"executor": "other", "available": true, "stand_in": true}]});
        assert!(default_executor(&listed).is_err());
    }
}

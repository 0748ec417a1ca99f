//! `provost run`: creates a task and starts its first attempt. `provost task start` and `provost retry`
//! start theirs here too.

use super::logs::Reader;
use super::open;
use super::prelude::*;
use super::project::{ProjectArg, choose_aloud};

/// The longest title that is derived from a prompt, in characters.
const TITLE: usize = 80;

/// The scripted executor that imitates an agent; it is never the default.
const FAKE: &str = "fake";

#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// What the agent is asked to do; its first line becomes the task's title
    prompt: String,
    #[command(flatten)]
    project: ProjectArg,
    #[command(flatten)]
    agent: AgentArgs,
}

/// The agent for a task.
#[derive(clap::Args, Debug)]
pub struct AgentArgs {
    /// An executor (see `provost executors`) [default: the only one that is installed]
    #[arg(long, value_name = "NAME")]
    executor: Option<String>,
    /// A variant of the executor [default: the executor's own]
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Print the log until the attempt has settled; exit code 7 if it failed
    #[arg(long)]
    follow: bool,
    /// Print a link to the attempt's page, and open it in your browser
    #[arg(long, conflicts_with = "follow")]
    open: bool,
}

/// What to do once an attempt has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Print,
    Follow,
    Open,
}

impl AgentArgs {
    fn then(&self) -> Then {
        if self.open { Then::Open } else { Then::following(self.follow) }
    }
}

impl Then {
    /// For verbs without `--open`.
    pub fn following(follow: bool) -> Self {
        if follow { Self::Follow } else { Self::Print }
    }
}

/// `provost run`: the prompt is also the task's description. If the start is refused, the task is
/// deleted again.
pub async fn run(context: &mut Context, args: RunArgs) -> Result<Exit, Failure> {
    let title = headline(&args.prompt, TITLE);
    if title.is_empty() {
        return Err(Failure::Usage("the prompt is empty".to_owned()));
    }
    let project = choose_aloud(context, args.project.name()).await?;
    let executor = executor(context, &args.agent).await?;
    let task = json!({"project_id": project, "title": title, "description": args.prompt});
    let task = context.call::<CreateTaskOutput>(task).await?.task_id;
    let start = json!({"task_id": task, "executor": executor, "variant": args.agent.variant,
        "prompt": args.prompt});
    match context.call::<StartTaskAttemptOutput>(start).await {
        // The task of a refused start is deleted: a person who corrects the command and runs it again
        // would have it twice.
        Err(refused @ Failure::Client(ClientError::Refused(_))) => {
            context.call::<DeleteTaskOutput>(json!({"task_id": task})).await?;
            Err(refused)
        }
        started => show(context, &started?, args.agent.then()).await,
    }
}

/// Starts an attempt at an existing task; `start` has the other arguments of the call.
pub async fn start(
    context: &mut Context,
    mut start: Value,
    agent: &AgentArgs,
) -> Result<Exit, Failure> {
    start["executor"] = json!(executor(context, agent).await?);
    start["variant"] = json!(agent.variant);
    start_as(context, start, agent.then()).await
}

/// Starts an attempt with exactly these arguments of `start_task_attempt`.
pub async fn start_as(context: &mut Context, start: Value, then: Then) -> Result<Exit, Failure> {
    let started = context.call::<StartTaskAttemptOutput>(start).await?;
    show(context, &started, then).await
}

/// Prints the id (short on a terminal), follows the log, or opens the page.
async fn show(
    context: &mut Context,
    started: &Answer<StartTaskAttemptOutput>,
    then: Then,
) -> Result<Exit, Failure> {
    let attempt = started.attempt_id;
    if then == Then::Open {
        anstream::eprintln!("attempt {}", attempt.short());
        return open::page(context, Some(attempt), false).await;
    }
    if then == Then::Follow {
        anstream::eprintln!("attempt {}", attempt.short());
        let failed = Reader::new(attempt).follow(context).await?.state == AttemptState::Failed;
        return Ok(if failed { Exit::AttemptFailed } else { Exit::Done });
    }
    context.show(started, |out, _| {
        out.line(&if out.terminal { attempt.short() } else { attempt.to_string() })
    })
}

/// The named or default executor, after the daemon has confirmed that it can start: a task is only
/// created for one that can.
async fn executor(context: &mut Context, agent: &AgentArgs) -> Result<String, Failure> {
    let executor = if let Some(executor) = &agent.executor {
        executor.clone()
    } else {
        let listed = context.call::<ListExecutorsOutput>(json!({})).await?;
        default_executor(&listed.executors)?
    };
    let params = json!({"executor": executor, "variant": agent.variant});
    context.call::<Empty>(params).await?;
    Ok(executor)
}

/// Whether an executor is no agent, but only does what its prompt says.
pub fn is_stand_in(executor: &ExecutorSummary) -> bool {
    executor.stand_in || executor.executor == FAKE
}

/// The only installed executor. Of several, the person has to choose one; without any, the failure says
/// how to install one.
fn default_executor(executors: &[ExecutorSummary]) -> Result<String, Failure> {
    let agents = executors.iter().filter(|it| !is_stand_in(it));
    let (available, missing): (Vec<_>, Vec<_>) = agents.partition(|it| it.available);
    let names = |of: &[&ExecutorSummary]| {
        of.iter().map(|it| harmless(&it.executor)).collect::<Vec<_>>().join(", ")
    };
    match available.as_slice() {
        [only] => Ok(only.executor.clone()),
        [] => {
            let install = missing.iter().find_map(|it| it.install.as_deref()).map(harmless);
            let install = install.map_or(String::new(), |way| format!(", such as `{way}`"));
            let names = names(&missing);
            let message =
                format!("none of the coding agents that Provost knows is installed: {names}");
            let refusal = Refusal::new(Code::ExecutorUnavailable, message).hint(format!(
                "Install one{install}; `provost executors` shows how. To try Provost without an \
                 agent, run again with `--executor {FAKE}`: a stand-in that only does what its \
                 prompt says."
            ));
            Err(Failure::Refused(Box::new(refusal)))
        }
        several => Err(Failure::Usage(format!(
            "which executor? Give one with --executor: {}",
            names(several)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::executor;

    fn chosen(executors: &[(&str, bool)]) -> Result<String, String> {
        let listed = executors.iter().map(|(name, available)| executor(name, *available));
        default_executor(&listed.collect::<Vec<_>>()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_only_installed_executor_is_the_default_and_never_the_stand_in() {
        assert_eq!(
            chosen(&[("fake", true), ("claude", true), ("codex", false)]).unwrap(),
            "claude"
        );
        let none = chosen(&[("fake", true), ("claude", false), ("codex", false)]).unwrap_err();
        assert!(none.ends_with("is installed: claude, codex."), "{none}");
        let several = chosen(&[("claude", true), ("codex", true), ("fake", true)]).unwrap_err();
        assert!(several.ends_with("--executor: claude, codex"), "{several}");
        let stand_in = ExecutorSummary { stand_in: true, ..executor("other", true) };
        assert!(default_executor(&[stand_in]).is_err());
    }
}

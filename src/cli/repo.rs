//! `provost repo show`, `provost repo remotes` and `provost trust`: what is configured for the worktrees
//! of repositories, where work is pushed, and whether the commands of a repository's file may run.

use std::io::IsTerminal;

use super::prelude::*;
use super::project::{ProjectArg, choose};

#[derive(clap::Subcommand, Debug)]
pub enum RepoCommand {
    /// Show the settings that apply to a repository's worktrees, and where each stands
    Show(RepoArgs),
    /// Show where the remotes lead to, now and when they were recorded
    ///
    /// Work is pushed only to a remote that still leads to what was recorded: agents can write a
    /// repository's configuration.
    Remotes(RemotesArgs),
}

#[derive(clap::Args, Debug)]
pub struct RemotesArgs {
    /// The repository's name [default: all of the project's]
    repository: Option<String>,
    #[command(flatten)]
    project: ProjectArg,
    /// Record the remotes as they are now [default: only show them]
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args, Debug)]
pub struct RepoArgs {
    /// The repository's name [default: all of the project's]
    repository: Option<String>,
    /// The branch whose provost.toml is read [default: the repository's default branch]
    #[arg(long)]
    branch: Option<String>,
    #[command(flatten)]
    project: ProjectArg,
}

#[derive(clap::Args, Debug)]
pub struct TrustArgs {
    /// An attempt's id: exactly what it wants; or a project's name or id
    /// [default: the project of this repository, or the only one]
    #[arg(value_name = "ATTEMPT|PROJECT")]
    of: Option<String>,
    /// Only this repository of it
    #[arg(long)]
    repo: Option<String>,
    /// The branch whose provost.toml is read [default: the repository's default branch]
    #[arg(long)]
    branch: Option<String>,
    /// Only show the commands, and whether they are approved
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Approve exactly these commands without asking
    #[arg(long, conflicts_with = "revoke")]
    yes: bool,
    /// Take back every approval
    #[arg(long)]
    revoke: bool,
}

impl RepoArgs {
    /// The repositories that are meant, as arguments of a call.
    async fn params(&self, context: &mut Context) -> Result<Value, Failure> {
        let project = choose(context, self.project.name()).await?;
        Ok(json!({"project_id": project, "repo": self.repository, "branch": self.branch}))
    }
}

pub async fn repo(context: &mut Context, command: &RepoCommand) -> Result<Exit, Failure> {
    let args = match command {
        RepoCommand::Show(args) => args,
        RepoCommand::Remotes(args) => return remotes(context, args).await,
    };
    let params = args.params(context).await?;
    let found = context.call::<ShownRepos>(params).await?;
    context.show(&found, |out, found| {
        for repo in &found.repos {
            let commit: String = repo.commit.chars().take(12).collect();
            out.line(&format!("{} at {} ({commit})", repo.repo_name, repo.branch))?;
            let rows = repo.settings.iter().map(row);
            out.list(&["KEY", "VALUE", "FROM"], rows, "nothing is configured for it")?;
            if !repo.is_trusted {
                out.line("its own commands are not approved: `provost trust` shows them")?;
            }
        }
        Ok(())
    })
}

/// `provost repo remotes`: without `--yes` it only shows the remotes.
async fn remotes(context: &mut Context, args: &RemotesArgs) -> Result<Exit, Failure> {
    let project = choose(context, args.project.name()).await?;
    let params = json!({"project_id": project, "repo": args.repository, "yes": args.yes});
    let found = context.call::<Remotes>(params).await?;
    let rows = found.remotes.iter().map(|it| {
        let url = |url: &Option<String>| url.clone().unwrap_or_else(|| "none".to_owned());
        vec![it.repo_name.clone(), it.remote.clone(), url(&it.url), url(&it.recorded)]
    });
    let columns = ["REPOSITORY", "REMOTE", "LEADS TO", "RECORDED"];
    context.list(&found, &columns, rows, "no repository has a remote")
}

fn row(setting: &ShownSetting) -> Vec<String> {
    let value = match &setting.value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    vec![setting.key.clone(), value, setting.origin.clone()]
}

/// `provost trust`: shows the commands of a repository's `provost.toml`, and asks on a terminal. The
/// argument is first taken for a project and then for an attempt.
pub async fn trust(context: &mut Context, args: &TrustArgs) -> Result<Exit, Failure> {
    let mut params = json!({"repo": args.repo, "branch": args.branch, "yes": args.yes,
        "revoke": args.revoke});
    match (choose(context, args.of.as_deref()).await, &args.of) {
        (Ok(project), _) => params["project_id"] = json!(project),
        (Err(failure), Some(of)) => match context.attempt(of).await {
            Ok(attempt) => params["attempt_id"] = json!(attempt),
            Err(_) => return Err(failure),
        },
        (Err(failure), None) => return Err(failure),
    }
    let mut found = context.call::<TrustedRepos>(params.clone()).await?;
    let is_open = found.repos.iter().any(|repo| !repo.is_trusted);
    let asks = is_open && !(args.show || args.yes || args.revoke || context.out.json);
    if asks && std::io::stdin().is_terminal() && context.out.terminal {
        if !agrees(&found)? {
            return Ok(Exit::Refused);
        }
        // Only what the person has read is approved: the daemon compares these hashes, because a commit
        // may have changed the commands meanwhile.
        let seen: Vec<&String> = found.repos.iter().filter_map(|repo| repo.hash.as_ref()).collect();
        (params["yes"], params["seen"]) = (json!(true), json!(seen));
        found = context.call::<TrustedRepos>(params).await?;
    }
    let is_open = !args.revoke && found.repos.iter().any(|repo| !repo.is_trusted);
    context.show(&found, |out, found| {
        shown(out, found)?;
        if is_open {
            out.line("with --yes, this may run in, or be copied to, the worktrees of attempts")?;
        }
        Ok(())
    })
}

/// Asks on standard error, so that standard output has only the result. Anything but `y`, `Y` or `yes`
/// is a no.
fn agrees(found: &TrustedRepos) -> std::io::Result<bool> {
    let mut out = Output::to(Box::new(std::io::stderr()), false);
    shown(&mut out, found)?;
    out.line("May this run in, or be copied to, the worktrees of attempts? [y/N]")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn shown(out: &mut Output, found: &TrustedRepos) -> std::io::Result<()> {
    for repo in &found.repos {
        if repo.commands.is_empty() {
            out.line(&format!("{}: its provost.toml has nothing to approve", repo.repo_name))?;
            continue;
        }
        let state = if repo.is_trusted { "approved" } else { "not approved" };
        out.line(&format!("{}: {state}", repo.repo_name))?;
        repo.commands.lines().try_for_each(|line| out.line(&format!("  {line}")))?;
    }
    for attempt in &found.released {
        out.line(&format!("attempt {} goes on", attempt.short()))?;
    }
    for ReleasedLater { attempt_id, host } in &found.later {
        let (attempt, host) = (attempt_id.short(), harmless(host));
        out.line(&format!("attempt {attempt} goes on when the daemon of host {host} runs again"))?;
    }
    match found.revoked {
        0 => {}
        1 => out.line("1 approval was taken back")?,
        count => out.line(&format!("{count} approvals were taken back"))?,
    }
    Ok(())
}

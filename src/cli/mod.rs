//! The command line. A verb is a client of the daemon's socket, and starts a daemon if none runs. `daemon`,
//! `doctor`, `config`, `audit`, `completions`, `tools` and `cluster` need none; `mcp` relays to the socket,
//! and `demo` has a daemon of its own. Results go to standard output, everything else to standard error.
//!
//! ```text
//!  main ▸ arguments ▸ start ┬ daemon: runs in this thread, with a runtime of its own
//!                           └ a runtime ▸ run_verb ▸ the verb's function(Context) ▸ Exit
//!                                                     │ Failure ▸ report: message and hint, or JSON
//! ```

mod approvals;
mod attempts;
mod audit;
mod brief;
mod calls;
mod checks;
mod cluster;
mod collected;
mod completions;
mod conflicts;
mod context;
mod daemon;
mod demo;
mod diff;
mod doctor;
mod executors;
mod exit;
mod finish;
mod follow_up;
mod gc;
mod hints;
mod hosts;
mod inbox;
mod leftovers;
mod logs;
mod mcp;
mod open;
mod output;
mod path;
mod plan;
mod prelude;
mod preview;
mod project;
mod render;
mod replay;
mod repo;
mod resume;
mod retry;
mod review;
mod run;
mod stop;
mod table;
mod task;
mod text;
mod tools;
mod try_executor;
mod usage;
mod user;
mod wait;
mod worktree;

use std::process::ExitCode;

use clap::Parser;
use prelude::{Context, Exit, Failure, Output};

use crate::home::Home;
use crate::telemetry;

/// Supervises coding agents in git worktrees.
#[derive(Parser, Debug)]
#[command(name = "provost", version)]
pub struct Cli {
    /// Print JSON with stable field names, errors too
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// The verbs that programs start. To build the other fifty takes a millisecond, and a third of a
/// bridge's memory.
#[derive(Parser, Debug)]
#[command(name = "provost", version)]
struct Served {
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: ServedCommand,
}

#[derive(clap::Subcommand, Debug)]
enum ServedCommand {
    Daemon(daemon::DaemonArgs),
    Mcp(mcp::McpArgs),
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Run the supervisor in the foreground
    Daemon(daemon::DaemonArgs),
    /// Serve MCP on standard input and output
    Mcp(mcp::McpArgs),
    /// Register the git repository at PATH as a project
    Init(project::InitArgs),
    /// Add, list and remove projects
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Show what is configured for the worktrees of a repository
    #[command(subcommand)]
    Repo(repo::RepoCommand),
    /// Approve the commands of a repository's provost.toml
    ///
    /// Shows them, and asks on a terminal; elsewhere --yes approves them. They run in the worktrees
    /// of attempts. Commands that were approved and then changed are asked for again.
    Trust(repo::TrustArgs),
    /// Add, start, list, show, change, import and remove tasks
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Create a task and start an attempt at it; prints the attempt's id
    Run(run::RunArgs),
    /// List running and waiting attempts, and the newest 20
    Ps {
        /// All attempts, not only running and waiting ones and the newest 20
        #[arg(short, long)]
        all: bool,
    },
    /// Start an attempt's dev server, wait until it answers, and print its URL
    ///
    /// It lives until --stop, or until the attempt's worktrees go.
    Preview(preview::PreviewArgs),
    /// Show an attempt's status
    Status {
        /// The attempt's id, or 8 or more characters of its start or end
        attempt: String,
    },
    /// Print an attempt's log
    Logs(logs::LogsArgs),
    /// Re-derive an attempt's log entries, and compare them with its log
    ///
    /// Exit code 1 if any byte differs.
    Replay(replay::ReplayArgs),
    /// Show what an attempt changed
    Diff(diff::DiffArgs),
    /// Print the path of an attempt's worktree
    ///
    /// `cd "$(provost path ID)"` goes there. The agent may not have committed its work.
    Path(path::PathArgs),
    /// Start a shell in an attempt's worktree, with its variables and ports
    ///
    /// The exit code is the shell's.
    Shell(worktree::ShellArgs),
    /// Go on with an attempt's session in its agent's own terminal interface
    ///
    /// It runs in the worktree, in the sandbox of the attempt's turns and with its settings. No turn
    /// may run meanwhile. The exit code is the agent's.
    Resume(resume::ResumeArgs),
    /// Print a link to the page, and open it in your browser
    Open(open::OpenArgs),
    /// Try an attempt's task again: another attempt, started as this one was
    Retry(retry::RetryArgs),
    /// Commit an attempt's work on its branch: everything that git does not ignore
    Commit(finish::CommitArgs),
    /// Merge an attempt's work into its target branch
    ///
    /// Work that is not committed is committed first, and the project's checks run on the result.
    /// A checkout of the branch follows, or nothing moves. Exit code 5 if there are conflicts. It goes
    /// on if the command is interrupted: the same command then waits for its end.
    Merge(finish::MergeArgs),
    /// Merge an attempt's work into the branch of another attempt
    ///
    /// Work that is not committed is committed first. The other attempt's worktree follows. No checks
    /// run: they do when that attempt's work is merged.
    Apply(finish::ApplyArgs),
    /// Push an attempt's work to a remote
    ///
    /// Work that is not committed is committed first. Only a remote whose URL was recorded for the
    /// project is pushed to: `provost repo remotes` shows them. Hooks do not run.
    Push(finish::PushArgs),
    /// Push an attempt's work and open a pull request for it
    ///
    /// The same again finds the one that is open. config.toml names the host: `[forges.HOST]`.
    Pr(finish::PrArgs),
    /// Move an attempt's worktree to the trash; its branch stays
    ///
    /// What is not merged is kept as a commit under refs/provost/snapshots, and with --branch the
    /// branch's own commits under refs/provost/branches.
    Rm(finish::RmArgs),
    /// Comment on the lines that an attempt changed, and send the comments as one prompt
    #[command(subcommand)]
    Review(review::ReviewCommand),
    /// Send the agent its next prompt now
    Send(follow_up::SendArgs),
    /// Queue a prompt for when the running turn ends
    Queue(follow_up::QueueArgs),
    /// List the permissions that agents ask for
    Approvals(approvals::ApprovalsArgs),
    /// Grant an agent's request, once
    Approve {
        /// The approval's id, or 8 or more characters of its start or end
        approval: String,
    },
    /// Deny an agent's request
    Deny {
        /// The approval's id, or 8 or more characters of its start or end
        approval: String,
        /// Reason, passed to the agent if its protocol allows
        #[arg(long)]
        reason: Option<String>,
    },
    /// List open questions, tickets and alerts
    Inbox(inbox::InboxArgs),
    /// Answer a question, or resolve a ticket
    Answer(inbox::AnswerArgs),
    /// Manage the plans used to answer questions
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Stop an attempt and all of its processes
    Stop(stop::StopArgs),
    /// Wait until attempts have settled, and what finishes them has ended
    Wait(wait::WaitArgs),
    /// Show the results of a task's checks, run when it was reported done
    Checks(checks::ChecksArgs),
    /// Call an MCP tool
    Call(tools::CallArgs),
    /// List the MCP tools
    Tools(tools::ToolsArgs),
    /// List the executors, and how to install missing ones
    Executors(executors::ExecutorsArgs),
    /// Show the main features on a scratch repository, without keys or network
    Demo {
        /// Run three workers that share a board of tasks, instead of one agent
        #[arg(long)]
        team: bool,
    },
    /// Check the home, the machine and the executors
    ///
    /// Without --fix it changes nothing, and it starts no daemon. Exit code 1 if a check fails.
    Doctor {
        /// Repair what is safe to repair; run `provost shutdown` first
        #[arg(long)]
        fix: bool,
    },
    /// List which attempts conflict, in an order of merging
    Conflicts(conflicts::ConflictsArgs),
    /// List worktrees that are no longer needed, and move them to the trash
    ///
    /// A worktree is no longer needed when its attempt has settled, everything in it is committed,
    /// its commits are merged into its target branch, and no process uses it. Branches are never
    /// deleted.
    Gc(gc::GcArgs),
    /// List the hosts that attempts run on, and how many run there
    Hosts,
    /// Drain a host, let it go on, or forget it
    #[command(subcommand)]
    Host(hosts::HostCommand),
    /// Try several hosts on one board
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Add, list and revoke users of the page and the API
    #[command(subcommand)]
    User(user::UserCommand),
    /// Show who changed what, when and from where
    Audit(audit::AuditArgs),
    /// Show the configuration
    #[command(subcommand)]
    Config(daemon::ConfigCommand),
    /// Stop the daemon; running attempts continue
    Shutdown {
        /// Stop all attempts first [default: they keep running, and the next daemon finds them]
        #[arg(long)]
        stop_all: bool,
    },
    /// Print a completion script
    Completions { shell: clap_complete::Shell },
}

/// Parses the command line and runs the verb. Called by `lib.rs` if this process plays no other part.
pub fn main() -> ExitCode {
    // Whatever `Served` can't parse, also help and mistakes, is parsed again by the whole `Cli`.
    let served = parsed::<Served>().map(|(served, verb)| (served.into(), verb));
    let (cli, verb): (Cli, String) = match served.or_else(|_| parsed::<Cli>()) {
        Ok(parsed) => parsed,
        Err(error) => return usage::report(error),
    };
    match start(cli.command, Output::stdout(cli.json)) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => report(&failure, cli.json, &verb),
    }
}

/// The arguments of this process, and the typed verb.
fn parsed<T: Parser>() -> Result<(T, String), clap::Error> {
    let matches = T::command().try_get_matches()?;
    Ok((T::from_arg_matches(&matches)?, usage::verb(&matches)))
}

impl From<Served> for Cli {
    fn from(Served { json, command }: Served) -> Self {
        let command = match command {
            ServedCommand::Daemon(args) => Command::Daemon(args),
            ServedCommand::Mcp(args) => Command::Mcp(args),
        };
        Self { json, command }
    }
}

/// Runs the verb. The daemon builds its own runtime; all others share one thread.
fn start(command: Command, out: Output) -> Result<Exit, Failure> {
    if let Command::Daemon(args) = &command {
        return daemon::daemon(args, &Home::from_environment()?);
    }
    telemetry::start(telemetry::CLIENT_DEFAULT)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(run_verb(command, out));
    // The doctor may have left a thread that waits for a disk which hangs. The doctor has reported it, and
    // this process does not wait for the thread.
    runtime.shutdown_background();
    exit
}

async fn run_verb(command: Command, out: Output) -> Result<Exit, Failure> {
    let mut context = Context::new(out, None);
    let context = &mut context;
    let exit = match command {
        Command::Daemon(_) => Ok(Exit::Done),
        Command::Mcp(args) => mcp::mcp(context, args).await,
        Command::Init(args) => project::init(context, args).await,
        Command::Project(command) => project::project(context, command).await,
        Command::Repo(command) => repo::repo(context, &command).await,
        Command::Trust(args) => repo::trust(context, &args).await,
        Command::Task(command) => task::task(context, command).await,
        Command::Run(args) => run::run(context, args).await,
        Command::Ps { all } => attempts::ps(context, all).await,
        Command::Preview(args) => preview::preview(context, &args).await,
        Command::Status { attempt } => attempts::status(context, &attempt).await,
        Command::Logs(args) => logs::logs(context, args).await,
        Command::Replay(args) => replay::replay(context, &args).await,
        Command::Diff(args) => diff::diff(context, &args).await,
        Command::Path(args) => path::path(context, &args).await,
        Command::Shell(args) => worktree::shell(context, &args).await,
        Command::Resume(args) => resume::resume(context, &args).await,
        Command::Open(args) => open::open(context, args).await,
        Command::Hosts => hosts::hosts(context).await,
        Command::Host(command) => hosts::host(context, command).await,
        Command::Cluster(command) => cluster::cluster(context, command).await,
        Command::User(command) => user::user(context, command).await,
        Command::Audit(args) => audit::audit(context, &args),
        Command::Retry(args) => retry::retry(context, &args).await,
        Command::Commit(args) => finish::commit(context, &args).await,
        Command::Merge(args) => finish::merge(context, &args).await,
        Command::Apply(args) => finish::apply(context, &args).await,
        Command::Push(args) => finish::push(context, &args).await,
        Command::Pr(args) => finish::pr(context, &args).await,
        Command::Rm(args) => finish::rm(context, &args).await,
        Command::Review(command) => review::review(context, command).await,
        Command::Send(args) => follow_up::send(context, &args).await,
        Command::Queue(args) => follow_up::queue(context, &args).await,
        Command::Approvals(args) => approvals::approvals(context, &args).await,
        Command::Approve { approval } => {
            approvals::respond(context, &approval, "approve", None).await
        }
        Command::Deny { approval, reason } => {
            approvals::respond(context, &approval, "deny", reason.as_deref()).await
        }
        Command::Inbox(args) => inbox::inbox(context, &args).await,
        Command::Answer(args) => inbox::answer(context, &args).await,
        Command::Plan(command) => plan::plan(context, command).await,
        Command::Stop(args) => stop::stop(context, &args).await,
        Command::Wait(args) => wait::wait(context, &args).await,
        Command::Checks(args) => checks::checks(context, &args).await,
        Command::Call(args) => tools::call(context, args).await,
        Command::Tools(args) => tools::tools(&mut context.out, &args),
        Command::Executors(args) => executors::executors(context, args).await,
        Command::Demo { team } => demo::demo(context, team).await,
        Command::Doctor { fix } => doctor::doctor(&mut context.out, fix).await,
        Command::Conflicts(args) => conflicts::conflicts(context, &args).await,
        Command::Gc(args) => gc::gc(context, &args).await,
        Command::Config(command) => daemon::config(context, &command),
        Command::Shutdown { stop_all } => daemon::shutdown(context, stop_all).await,
        Command::Completions { shell } => completions::completions(context, shell),
    }?;
    context.out.flush()?;
    Ok(exit)
}

/// Prints on standard error why a verb failed: with `--json` as an envelope.
fn report(failure: &Failure, json: bool, verb: &str) -> ExitCode {
    let exit = failure.exit();
    if json && exit != Exit::Done {
        let envelope = failure.envelope(verb).to_string();
        anstream::eprintln!("{}", text::harmless_json(&envelope));
    } else if exit != Exit::Done {
        let message = hints::message_for_person(&failure.to_string(), verb);
        for (label, text) in [("error", message), ("hint", failure.hint(verb))] {
            let lines: Vec<String> = text.lines().map(text::harmless).collect();
            if !lines.is_empty() {
                anstream::eprintln!("{label}: {}", lines.join("\n"));
            }
        }
    }
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests;

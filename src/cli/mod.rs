//! The command line: what a person or a script types, one function a verb.
//!
//! Every verb but `daemon`, `doctor`, `config`, `completions` and `tools` is a client of
//! the daemon's socket; none reads its database. Results go to standard output,
//! everything else to standard error.

mod approvals;
mod attempts;
mod brief;
mod checks;
mod context;
mod daemon;
mod demo;
mod diff;
mod doctor;
mod executors;
mod exit;
mod follow_up;
mod gc;
mod hints;
mod import;
mod inbox;
mod logs;
mod output;
mod path;
mod plan;
mod project;
mod render;
mod replay;
mod run;
mod stop;
mod table;
mod task;
mod tools;
mod usage;
mod wait;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use context::Context;
pub use exit::Exit;
use exit::Failure;
use output::Output;

use crate::bridge;
use crate::client::{Hello, Peer, Starter};
use crate::home::Home;
use crate::role::{Access, Role};
use crate::telemetry;

/// Supervises coding agents in git worktrees.
#[derive(Parser, Debug)]
#[command(name = "provost", version)]
pub struct Cli {
    /// Print JSON of a stable shape, errors too
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Run the supervisor in the foreground
    Daemon(daemon::DaemonArgs),
    /// Speak MCP on standard input and output
    Mcp {
        /// Which tools are offered [default: worker inside an attempt, else orchestrator]
        #[arg(long, value_enum)]
        role: Option<Role>,
        /// What calls may do [default: write for a worker, else admin]
        #[arg(long, value_enum)]
        access: Option<Access>,
    },
    /// Register the git repository at PATH as a project
    Init(project::InitArgs),
    /// Add and list projects
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Add, start, list, show, import and remove tasks
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Create a task and start an attempt at it; prints the attempt's id
    Run(run::RunArgs),
    /// List running and waiting attempts, and the newest 20
    Ps(attempts::PsArgs),
    /// Show an attempt's status
    Status(attempts::StatusArgs),
    /// Print an attempt's log
    Logs(logs::LogsArgs),
    /// Re-derive an attempt's log entries, and compare them with its log
    ///
    /// Exits with 1 if they differ from those on file in a single byte.
    Replay(replay::ReplayArgs),
    /// Show what an attempt changed
    Diff(diff::DiffArgs),
    /// Print the path of an attempt's worktree
    ///
    /// `cd "$(provost path ID)"` goes there. The attempt's work is in it, mostly not committed.
    Path(path::PathArgs),
    /// Send the agent its next prompt now
    Send(follow_up::SendArgs),
    /// Queue a prompt for when the running turn ends
    Queue(follow_up::QueueArgs),
    /// List what agents ask permission for
    Approvals(approvals::ApprovalsArgs),
    /// Permit what an agent asks for, once
    Approve(approvals::ApproveArgs),
    /// Deny what an agent asks for
    Deny(approvals::DenyArgs),
    /// List open questions, tickets and alerts
    Inbox(inbox::InboxArgs),
    /// Answer a question, or resolve a ticket
    Answer(inbox::AnswerArgs),
    /// Manage the plans used to answer questions
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Stop an attempt and every process that it started
    Stop(stop::StopArgs),
    /// Wait until attempts have settled
    Wait(wait::WaitArgs),
    /// Show what the checks of a task found when it was reported done
    Checks(checks::ChecksArgs),
    /// Call an MCP tool
    Call(tools::CallArgs),
    /// List the MCP tools
    Tools(tools::ToolsArgs),
    /// List the executors, and how to install missing ones
    Executors,
    /// Show the main features on a scratch repository, without keys or network
    Demo(demo::DemoArgs),
    /// Check the home, the machine and the executors
    ///
    /// Without --fix it changes nothing and starts no daemon. Exits with 1 if anything fails.
    Doctor(doctor::DoctorArgs),
    /// List worktrees that can go, and move them to the trash
    ///
    /// A worktree can go when its attempt has settled, everything in it is committed, its commits
    /// are merged into its target branch, and no process uses it. All others stay, and no branch
    /// is ever deleted.
    Gc(gc::GcArgs),
    /// Show the configuration
    #[command(subcommand)]
    Config(daemon::ConfigCommand),
    /// Stop the daemon; running attempts continue
    Shutdown(daemon::ShutdownArgs),
    /// Print a completion script
    Completions { shell: clap_complete::Shell },
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    let parsed = Cli::command()
        .try_get_matches()
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, usage::verb(&matches))));
    let (cli, verb) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::report(error),
    };
    let json = cli.json;
    match start(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure, json, &verb),
    }
}

fn start(cli: Cli) -> Result<Exit, Failure> {
    let mut out = Output::stdout(cli.json);
    let exit = match cli.command {
        Command::Daemon(args) => daemon::daemon(&args, &Home::from_environment()?)?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "provost", &mut script);
            out.raw(&String::from_utf8_lossy(&script))?;
            Exit::Done
        }
        Command::Tools(args) => tools::tools(&mut out, &args)?,
        Command::Config(command) => daemon::config(&mut out, &Home::from_environment()?, &command)?,
        Command::Demo(args) => {
            telemetry::start(telemetry::CLIENT_DEFAULT)?;
            return runtime()?.block_on(demo::demo(&args, out));
        }
        Command::Doctor(args) => {
            telemetry::start(telemetry::CLIENT_DEFAULT)?;
            let runtime = runtime()?;
            let exit = runtime.block_on(doctor::doctor(&mut out, &args));
            // The check of a disk that hangs has been reported; nothing waits for it.
            runtime.shutdown_background();
            return exit;
        }
        command => {
            telemetry::start(telemetry::CLIENT_DEFAULT)?;
            let home = Home::from_environment()?;
            return runtime()?.block_on(with_daemon(command, home, out));
        }
    };
    out.flush()?;
    Ok(exit)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The verbs that speak to the daemon.
async fn with_daemon(command: Command, home: Home, out: Output) -> Result<Exit, Failure> {
    if let Command::Mcp { role, access } = command {
        let role = role.or_else(|| crate::home::surrounding_attempt().map(|_| Role::Worker));
        let hello = Hello::of_process(Peer::Bridge, role).with_access(access);
        bridge::run(Starter::new(home), hello).await?;
        return Ok(Exit::Done);
    }
    let mut context = Context::new(home, out);
    let context = &mut context;
    let exit = match command {
        Command::Init(args) => project::init(context, args).await,
        Command::Project(command) => project::project(context, command).await,
        Command::Task(command) => task::task(context, command).await,
        Command::Run(args) => run::run(context, args).await,
        Command::Ps(args) => attempts::ps(context, &args).await,
        Command::Status(args) => attempts::status(context, &args).await,
        Command::Logs(args) => logs::logs(context, args).await,
        Command::Replay(args) => replay::replay(context, &args).await,
        Command::Diff(args) => diff::diff(context, &args).await,
        Command::Path(args) => path::path(context, &args).await,
        Command::Send(args) => follow_up::send(context, &args).await,
        Command::Queue(args) => follow_up::queue(context, &args).await,
        Command::Approvals(args) => approvals::approvals(context, &args).await,
        Command::Approve(args) => approvals::approve(context, &args).await,
        Command::Deny(args) => approvals::deny(context, &args).await,
        Command::Inbox(args) => inbox::inbox(context, &args).await,
        Command::Answer(args) => inbox::answer(context, &args).await,
        Command::Plan(command) => plan::plan(context, command).await,
        Command::Stop(args) => stop::stop(context, &args).await,
        Command::Wait(args) => wait::wait(context, &args).await,
        Command::Checks(args) => checks::checks(context, &args).await,
        Command::Call(args) => tools::call(context, args).await,
        Command::Executors => executors::executors(context).await,
        Command::Gc(args) => gc::gc(context, &args).await,
        Command::Shutdown(args) => daemon::shutdown(context, &args).await,
        Command::Daemon(_)
        | Command::Mcp { .. }
        | Command::Demo(_)
        | Command::Doctor(_)
        | Command::Config(_)
        | Command::Tools(_)
        | Command::Completions { .. } => Ok(Exit::Done),
    }?;
    context.out.flush()?;
    Ok(exit)
}

/// Says on standard error why a verb failed; to programs by an envelope.
fn report(failure: &Failure, json: bool, verb: &str) -> ExitCode {
    let exit = failure.exit();
    if exit == Exit::Done {
        return exit.into();
    }
    if json {
        let envelope = failure.envelope(verb).to_string();
        anstream::eprintln!("{}", output::harmless_json(&envelope));
        return exit.into();
    }
    let message = hints::message_for_person(&failure.to_string(), verb);
    anstream::eprintln!("error: {}", printable(&message));
    let hint = failure.hint(verb);
    if !hint.is_empty() {
        anstream::eprintln!("hint: {}", printable(&hint));
    }
    exit.into()
}

/// Several lines, each harmless to a terminal.
fn printable(text: &str) -> String {
    text.lines().map(output::harmless).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;

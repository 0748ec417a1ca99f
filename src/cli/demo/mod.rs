//! `provost demo`: the main job end to end, on a scratch repository. It is a client like
//! every other verb, and claims nothing that it has not checked. This file has what the
//! two stories share; they are [`solo`] and, with `--team`, [`team`].

mod board;
mod scratch;
mod solo;
mod team;
mod worker;

use std::io;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use scratch::Scratch;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::context::{Context, text};
use super::daemon;
use super::exit::{Exit, Failure};
use super::output::{Output, harmless};
use crate::client::Starter;

/// How long the demo may take. It takes seconds on a machine that works.
const LIMIT: Duration = Duration::from_mins(5);

/// The lines of the daemon's log that are shown when the demo fails.
const LOG_LINES: usize = 20;

#[derive(clap::Args, Debug)]
pub struct DemoArgs {
    /// Three workers that share a board of tasks, instead of one agent at one
    #[arg(long)]
    team: bool,
    /// Be one of those workers
    #[arg(long, hide = true)]
    play_worker: bool,
}

/// Runs the demo. However it ends, it leaves nothing behind.
pub async fn demo(args: &DemoArgs, mut out: Output) -> Result<Exit, Failure> {
    if args.play_worker {
        return worker::play(out).await;
    }
    let is_json = out.is_json();
    let nowhere = Output::to(Box::new(io::sink()), false);
    let told = if is_json { nowhere } else { std::mem::replace(&mut out, nowhere) };
    let interrupted = Interrupt::listen()?;
    let scratch = Scratch::make().await?;
    let starter = Starter::new(scratch.home().clone()).even_inside_an_attempt();
    let mut demo = Demo { context: Context::with(starter, told), project: String::new(), scratch };
    let tell = async { if args.team { demo.team().await } else { demo.solo().await } };
    let story = tokio::select! {
        story = timeout(LIMIT, tell) => story.unwrap_or_else(|_| Err(fault("it takes too long"))),
        () = interrupted.came() => Err(fault("interrupted")),
    };
    match story {
        Ok(summary) if is_json => out.json(&summary)?,
        Ok(_) => {}
        Err(failure) => {
            demo.show_daemon_log();
            // Also errors that a verb ignores, such as a closed pipe.
            return Err(fault(&format!("the demo did not work: {failure}")));
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// What a story needs.
struct Demo {
    context: Context,
    scratch: Scratch,
    project: String,
}

impl Demo {
    async fn begin(&mut self) -> Result<(), Failure> {
        let place = self.scratch.root().display().to_string();
        self.say(&format!("A daemon, a home and a git repository of its own, in {place}"))?;
        let repo = json!({"path": self.scratch.repo()});
        let project = json!({"name": "demo", "repos": [repo]});
        let project = self.context.tool("create_project", project).await?;
        text(&project, "project_id").clone_into(&mut self.project);
        Ok(())
    }

    async fn end(&mut self, chapter: u32) -> Result<(), Failure> {
        self.chapter(&format!("{chapter}. Nothing is left behind"))?;
        let pid = daemon::end(&mut self.context, true).await?.pid;
        self.claim(&format!("the daemon, pid {pid}, has ended as requested"))?;
        check(self.scratch.processes().is_empty(), "no process is left")?;
        self.scratch.remove()?;
        check(!self.scratch.root().exists(), "no file is left")?;
        self.claim("no process and no file is left")?;
        self.say("\nAll of it worked.")
    }

    fn chapter(&mut self, title: &str) -> Result<(), Failure> {
        let title = self.context.out.paint(Style::new().bold(), title);
        self.say(&format!("\n{title}\n"))
    }

    /// Prints a fact that has been checked.
    fn claim(&mut self, what: &str) -> Result<(), Failure> {
        let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
        let mark = self.context.out.paint(green, "✓       ");
        self.say(&format!("{mark} {}", harmless(what)))
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        self.context.out.line(line)?;
        Ok(self.context.out.flush()?)
    }

    /// Prints the daemon's last warnings, for a bug report.
    fn show_daemon_log(&self) {
        let log = std::fs::read_to_string(self.scratch.home().log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains(" INFO ")).collect();
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            anstream::eprintln!("{}", harmless(line));
        }
    }
}

/// The signals that end the demo.
struct Interrupt([tokio::signal::unix::Signal; 3]);

impl Interrupt {
    fn listen() -> io::Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn came(mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// The entries of an array in an answer.
fn list<'v>(answer: &'v serde_json::Value, name: &str) -> &'v [serde_json::Value] {
    answer[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn check(holds: bool, claim: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(fault(&format!("this does not hold: {claim}"))) }
}

fn fault(what: &str) -> Failure {
    Failure::Fault(what.to_owned())
}

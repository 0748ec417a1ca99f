//! `provost demo`: the main features end to end, on a scratch repository. Its two scripts use the verbs,
//! and check everything that they claim. This file runs them, and proves that they leave nothing behind.

mod scratch;

use std::io;
use std::process::Stdio;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use futures_util::future::select_all;
use scratch::Scratch;
pub use scratch::begin_repository;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::prelude::*;
use super::{daemon, leftovers};
use crate::client::Starter;
use crate::home::{ATTEMPT_VARIABLES, HOME_VARIABLE};

/// Time limit of the demo, which usually takes seconds.
const LIMIT: Duration = Duration::from_mins(5);

/// The lines of the daemon's log that are shown when the demo fails.
const LOG_LINES: usize = 20;

const GREEN: Style = AnsiColor::Green.on_default();

const SOLO: &str = concat!(include_str!("lib.sh"), include_str!("solo.sh"));
const TEAM: &str = concat!(include_str!("lib.sh"), include_str!("team.sh"));

/// `provost demo`. However it ends, also by a signal, `Scratch` removes everything that it made.
pub async fn demo(context: &mut Context, is_team: bool) -> Result<Exit, Failure> {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut signals = signals.into_iter().map(signal).collect::<io::Result<Vec<_>>>()?;
    let interrupted = select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv())));
    let scratch = Scratch::make(is_team).await?;
    *context = Context::new(context.out.take(), Some(Starter::new(scratch.home.clone())));
    let result = tokio::select! {
        result = timeout(LIMIT, tell(context, &scratch, is_team)) => {
            result.unwrap_or_else(|_| Err(fault("it takes too long")))
        }
        _ = interrupted => Err(fault("interrupted")),
    };
    match result {
        Ok(summary) => context.out.as_json(&summary)?,
        Err(failure) => {
            show_daemon_log(&scratch);
            // Other verbs ignore some failures, such as a closed pipe; the demo reports all.
            return Err(fault(&format!("the demo did not work: {failure}")));
        }
    };
    Ok(Exit::Done)
}

/// Runs a script, then ends the daemon and proves that nothing is left; returns the script's summary.
async fn tell(context: &mut Context, scratch: &Scratch, is_team: bool) -> Result<Value, Failure> {
    let place = scratch.root.display();
    say(context, &format!("A daemon, a home and a git repository of its own, in {place}"))?;
    let is_json = context.out.json;
    #[expect(clippy::disallowed_methods, reason = "the script belongs to no attempt")]
    let mut script = Command::new("sh");
    script
        .args(["-c", if is_team { TEAM } else { SOLO }])
        .env(HOME_VARIABLE, &scratch.home.data_dir)
        .env("provost", std::env::current_exe()?)
        .env("root", &scratch.root)
        .stdin(Stdio::null())
        .stdout(if is_json { Stdio::null() } else { Stdio::inherit() })
        .kill_on_drop(true);
    for name in ATTEMPT_VARIABLES {
        script.env_remove(name);
    }
    for (name, style) in [("bold", Style::new().bold()), ("green", GREEN)] {
        let painted = context.out.paint(style, " ");
        let (begin, end) = painted.split_once(' ').unwrap_or_default();
        script.env(name, begin).env("plain", end);
    }
    if !script.status().await?.success() {
        let why = std::fs::read_to_string(scratch.root.join("failure"));
        return Err(fault(why.as_deref().unwrap_or("the script failed").trim()));
    }
    let summary = std::fs::read_to_string(scratch.root.join("summary"))?;

    let title = if is_team { "4. Nothing is left behind" } else { "5. Nothing is left behind" };
    let title = context.out.paint(Style::new().bold(), title);
    say(context, &format!("\n{title}\n"))?;
    let (pid, _) = daemon::end(context, true).await?;
    prove(context, true, &format!("the daemon, pid {pid}, has ended as requested"))?;
    let is_empty = leftovers::processes(&scratch.root).is_empty();
    scratch.remove()?;
    prove(context, is_empty && !scratch.root.exists(), "no process and no file is left")?;
    say(context, "\nAll of it worked.")?;
    serde_json::from_str(&summary).map_err(|error| fault(&error.to_string()))
}

fn say(context: &mut Context, line: &str) -> Result<(), Failure> {
    if !context.out.json {
        context.out.painted(line)?;
        context.out.flush()?;
    }
    Ok(())
}

/// Prints a claim as proved; fails if it does not hold.
fn prove(context: &mut Context, holds: bool, what: &str) -> Result<(), Failure> {
    if !holds {
        return Err(fault(&format!("a check of the demo failed: {what}")));
    }
    let mark = context.out.paint(GREEN, "✓");
    say(context, &format!("{mark}        {}", harmless(what)))
}

/// Prints the daemon's last warnings, for a bug report.
fn show_daemon_log(scratch: &Scratch) {
    let log = std::fs::read_to_string(&scratch.home.log_file).unwrap_or_default();
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains(" INFO ")).collect();
    for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
        anstream::eprintln!("{}", harmless(line));
    }
}

fn fault(what: &str) -> Failure {
    Failure::Fault(what.to_owned())
}

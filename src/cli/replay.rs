//! `provost replay`: derives an attempt's entries again from its executor's output, and compares them
//! with its log. It reads the home's files; the daemon only resolves the attempt.

use std::io;

use provost_actors::attempt::provision::is_script;
use provost_actors::attempt::{Machine, read_launch_state};
use provost_actors::executor;
use provost_actors::ids::ProcessId;
use provost_actors::log::{Difference, Entry, LogError, Replay, process_dir, replay as derive};
use tokio::sync::mpsc;

use super::logs;
use super::prelude::*;
use crate::config::Config;
use crate::executors::Registry;

/// Entries that are derived ahead of printing.
const AHEAD: usize = 256;

#[derive(clap::Args, Debug)]
pub struct ReplayArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// Only this execution process
    #[arg(long, value_name = "ID")]
    process: Option<ProcessId>,
}

/// `provost replay`: prints the derived entries, then the verdict; exit code 1 unless all are equal.
pub async fn replay(context: &mut Context, args: &ReplayArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let status = context.call::<AttemptStatus>(json!({"attempt_id": attempt})).await?;
    let home = context.home()?;
    let dir = home.attempts().join(attempt.to_string());
    let registry = Registry::new(&Config::load(&home.config_file(), &[])?, Machine::default());
    let (executor, only) = (status.executor.clone(), args.process);
    let (sender, mut entries) = mpsc::channel(AHEAD);
    let work = tokio::task::spawn_blocking(move || {
        let show = |entry| sender.blocking_send(entry).map_err(io::Error::other);
        let mut unreadable = None;
        let reader = |process| {
            let dir = process_dir(&dir, process);
            if is_script(&dir) {
                return Ok(Box::new(executor::PlainLines) as _);
            }
            let dialogue = read_launch_state(&dir)?;
            Ok(registry.reader(&executor, &dialogue).unwrap_or_else(|why| {
                unreadable = Some(why);
                Box::new(executor::PlainLines) as _
            }))
        };
        (derive(&dir, only, reader, show), unreadable)
    });
    while let Some(entry) = entries.recv().await {
        let entry = entry.parse().map_err(|error| Failure::Fault(error.to_string()))?;
        logs::print(&mut context.out, &entry)?;
    }
    let (outcome, unreadable) = work.await.map_err(io::Error::other)?;
    let outcome = outcome.map_err(|error: LogError| Failure::Fault(error.to_string()))?;
    report(&mut context.out, outcome, unreadable)
}

/// Prints the verdict on standard error, or as a last line of JSON. `unreadable`: why an executor's own
/// reader is not available, such as a changed configuration; it explains a difference.
fn report(out: &mut Output, outcome: Replay, unreadable: Option<String>) -> Result<Exit, Failure> {
    let (count, message, difference) = match outcome {
        Replay::Same(count) => {
            (Some(count), format!("{count} entries, identical byte for byte"), None)
        }
        Replay::Differs(difference) => {
            let why = unreadable.map(|why| format!(": {why}")).unwrap_or_default();
            (None, format!("entry {} differs{why}", difference.entry_index), Some(difference))
        }
        Replay::Gone(process) => {
            (None, format!("part of the output of process {process} is no longer stored"), None)
        }
    };
    if out.json {
        let sides = difference.as_ref().map(|Difference { entry_index, on_file, derived }| {
            json!({"entry_index": entry_index, "on_file": on_file, "derived": derived})
        });
        let verdict = json!({"same": count.is_some(), "entries": count, "message": message,
            "difference": sides});
        out.json_line(&json!({ "replay": verdict }))?;
    } else {
        out.flush()?;
        anstream::eprintln!("{message}");
        if let Some(it) = &difference {
            for (name, side) in [("on file", &it.on_file), ("derived", &it.derived)] {
                anstream::eprintln!("{name}: {}", side.as_ref().map_or("nothing", Entry::json));
            }
        }
    }
    Ok(if count.is_some() { Exit::Done } else { Exit::Refused })
}

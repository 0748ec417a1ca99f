//! `provost replay`: re-derives an attempt's entries from what its executor wrote, and
//! says whether they are those on file.

use std::collections::BTreeMap;
use std::io;

use provost_actors::attempt::read_launch_state;
use provost_actors::executor;
use provost_actors::ids::ProcessId;
use provost_actors::log::{Difference, Entry, LogError, Replay, process_dir, replay as derive};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::logs;
use crate::config::Config;
use crate::executors::Registry;

/// Entries derived and not printed yet.
const AHEAD: usize = 256;

#[derive(clap::Args, Debug)]
pub struct ReplayArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// Only this execution process
    #[arg(long, value_name = "ID")]
    process: Option<ProcessId>,
}

pub async fn replay(context: &mut Context, args: &ReplayArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let status = context.read("get_attempt_status", &json!({"attempt_id": attempt})).await?;
    let dir = context.home().attempts().join(&attempt);
    let registry = registry(context)?;
    let (executor, only) = (text(&status, "executor").to_owned(), args.process);
    let (sender, mut entries) = mpsc::channel(AHEAD);
    let work = tokio::task::spawn_blocking(move || {
        let show = |entry| sender.blocking_send(entry).map_err(io::Error::other);
        let mut unreadable = None;
        let reader = |process| {
            let dialogue = read_launch_state(&process_dir(&dir, process))?;
            Ok(registry.reader(&executor, &dialogue).unwrap_or_else(|why| {
                unreadable = Some(why);
                Box::new(executor::PlainLines) as _
            }))
        };
        (derive(&dir, only, reader, show), unreadable)
    });
    while let Some(entry) = entries.recv().await {
        logs::print(&mut context.out, &value(&entry)?)?;
    }
    let (outcome, unreadable) = work.await.map_err(io::Error::other)?;
    let outcome = outcome.map_err(|error: LogError| Failure::Fault(error.to_string()))?;
    tell(context, outcome, unreadable)
}

fn registry(context: &Context) -> Result<Registry, Failure> {
    let config = Config::load(&context.home().config_file(), &[])?;
    Ok(Registry::new(&config, &BTreeMap::new()))
}

fn value(entry: &Entry) -> Result<Value, Failure> {
    entry.parse().map_err(|error| Failure::Fault(error.to_string()))
}

/// `unreadable`: why the reader that a process had is not there any more.
fn tell(
    context: &mut Context,
    outcome: Replay,
    unreadable: Option<String>,
) -> Result<Exit, Failure> {
    let out = &mut context.out;
    let (is_same, count, words, difference) = match outcome {
        Replay::Same(count) => {
            (true, Some(count), format!("{count} entries, identical byte for byte"), None)
        }
        Replay::Differs(difference) => {
            let why = unreadable.map(|why| format!(": {why}")).unwrap_or_default();
            let words = format!("entry {} differs{why}", difference.entry_index);
            (false, None, words, Some(difference))
        }
        Replay::Gone(process) => {
            let words = format!("part of what process {process} wrote is no longer stored");
            (false, None, words, None)
        }
    };
    let sides = difference.as_ref().map(|Difference { entry_index, on_file, derived }| {
        json!({"entry_index": entry_index, "on_file": on_file, "derived": derived})
    });
    if out.is_json() {
        let verdict = json!({"same": is_same, "entries": count, "message": words,
            "difference": sides});
        out.json_line(&json!({ "replay": verdict }))?;
    } else {
        out.flush()?;
        anstream::eprintln!("{words}");
        for (name, side) in difference
            .iter()
            .flat_map(|it| [("on file", it.on_file.as_ref()), ("derived", it.derived.as_ref())])
        {
            anstream::eprintln!("{name}: {}", side.map_or("nothing", Entry::json));
        }
    }
    Ok(if is_same { Exit::Done } else { Exit::Refused })
}

//! Before a turn begins, what still runs of its attempt in a weaker sandbox is ended: it could
//! run what the turn writes, with more rights than the turn has.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::message::{TurnEvent, TurnHandle};
use super::provision::SetupSignals;
use super::provision::preview::Previewing;
use super::say::say;
use crate::blocking::blocking;
use crate::ids::ProcessId;
use crate::journal::Attempt;
use crate::log::process_dir;
use crate::process::records::{self, Started};
use crate::sandbox::Level;
use crate::world::World;

/// How long the end of these processes may take, beyond the grace of a stop.
const END_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the actor may take to close a turn of which no process is left.
const MOMENT: Duration = Duration::from_millis(250);

/// What a person does about a process that could not be ended: the hints of the two refusals.
const TURN_ENDS: &str = "stop the attempt until nothing survives";
const PREVIEW_ENDS: &str =
    "end it with follow_up and action end_preview, or with `provost preview ATTEMPT --stop`";

/// What ran of an attempt when a turn was planned: earlier turns, each with a channel that closes
/// once nothing of it is alive, and the dev server.
#[derive(Default)]
pub struct Earlier {
    pub turns: Vec<(ProcessId, watch::Receiver<()>)>,
    pub preview: Option<Previewing>,
}

/// Ends what runs in a weaker sandbox than the newest turn will have, and says so in the log. Setup and
/// cleanup scripts need not be ended: each holds the lock of the worktrees while it runs, as the caller of
/// this does. `Err` is a sentence: something can't be ended, so the turn must not begin.
pub async fn end_less_confined(
    world: &World,
    attempt: &Attempt,
    earlier: Earlier,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    // A turn that was stopped meanwhile begins nothing, so nothing has to end for it. Its preparation
    // still continues, because it ends a setup that an earlier daemon has left running.
    if signals.stop().is_some() {
        return Ok(());
    }
    // The turn fails later, without its executor.
    let Some(executor) = world.executors.get(&attempt.executor) else { return Ok(()) };
    let level = executor.sandbox(attempt.process.variant.as_deref()).level;
    let dir = world.settings.attempt_dir(attempt.attempt_id);
    let (mut turns, mut gone) = (Vec::new(), Vec::new());
    for (process, mut alive) in earlier.turns {
        let is_less = held(&dir, process).await < level;
        if is_less && timeout(MOMENT, closed(&mut alive)).await.is_err() {
            turns.push(process);
            gone.push(alive);
        }
    }
    let mut preview = earlier.preview;
    if let Some(serving) = &preview
        && !serves_with_less(&dir, serving, level).await
    {
        preview = None;
    }
    // All get their stop before any is waited for, so that their graces run at the same time.
    if !turns.is_empty() {
        handle.send(TurnEvent::EndLessConfined(turns));
    }
    if let Some(preview) = &preview {
        preview.stop();
    }
    let until = Instant::now() + world.settings.launch.stop_grace + END_TIMEOUT;
    if !gone.is_empty() {
        let ended = async {
            for alive in &mut gone {
                closed(alive).await;
            }
        };
        timeout_at(until, ended).await.map_err(|_| stays(level, "an earlier turn", TURN_ENDS))?;
        note(world, attempt, level, "What an earlier turn had left running was ended").await;
    }
    if let Some(preview) = preview {
        let ended = timeout_at(until, preview.ended()).await;
        ended.map_err(|_| stays(level, "the dev server", PREVIEW_ENDS))?;
        note(world, attempt, level, "The dev server was stopped").await;
    }
    Ok(())
}

/// Waits until nothing of a turn is alive.
async fn closed(alive: &mut watch::Receiver<()>) {
    while alive.changed().await.is_ok() {}
}

/// Why the turn can't begin.
fn stays(level: Level, what: &str, way_out: &str) -> String {
    format!(
        "its sandbox is {:?}, and {what} runs with less and can't be ended: {way_out}, then send \
         the prompt again",
        level.word()
    )
}

/// Whether a dev server runs in a box that holds less than `level`.
async fn serves_with_less(attempt_dir: &Path, preview: &Previewing, level: Level) -> bool {
    let (process, is_alive) = {
        let seen = preview.seen.borrow();
        (seen.process_id, seen.state.is_alive())
    };
    match &preview.level {
        _ if !is_alive => false,
        // One that has not begun yet will have at least the level of this turn.
        Some(begun) => begun.get().is_some_and(|own| *own < level),
        None => held(attempt_dir, process).await < level,
    }
}

/// The sandbox level that a process began with. Without a record it counts as none, because the process may
/// have no sandbox.
async fn held(attempt_dir: &Path, process: ProcessId) -> Level {
    let dir = process_dir(attempt_dir, process);
    let started = blocking(move || records::read::<Started>(&dir, Started::FILE)).await;
    let receipt = started.ok().flatten().and_then(|started| started.sandbox);
    receipt.map(|receipt| receipt.level).unwrap_or_default()
}

/// Says in the attempt's log what was ended, and why.
async fn note(world: &World, attempt: &Attempt, level: Level, what: &str) {
    let text = format!(
        "{what}, because the sandbox of this turn, {:?}, holds more than the one it ran in.",
        level.word()
    );
    say(world, attempt, text).await;
}

//! Before a turn begins, what still runs of its attempt in a box that holds less is ended: it could
//! run what the turn writes.

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

/// How long what has to end may take, beside the grace of a dev server.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a turn of which nothing is left may take to be closed.
const MOMENT: Duration = Duration::from_millis(250);

/// What ends by hand what could not be ended.
const TURN_ENDS: &str = "stop the attempt until nothing survives";
const PREVIEW_ENDS: &str =
    "end it with follow_up and action end_preview, or with `provost preview ATTEMPT --stop`";

/// What runs of an attempt when a turn is planned: earlier turns, each with a channel that closes
/// once nothing of it is alive, and the dev server.
#[derive(Default)]
pub struct Earlier {
    pub turns: Vec<(ProcessId, watch::Receiver<()>)>,
    pub preview: Option<Previewing>,
}

/// Ends what runs in a box that holds less than that of the newest turn. Setup and cleanup scripts
/// need not be ended: each locks the worktrees while it runs, and they are locked here too. `Err`
/// is a sentence.
pub async fn end_less_confined(
    world: &World,
    attempt: &Attempt,
    earlier: Earlier,
    handle: &TurnHandle,
    signals: &SetupSignals,
) -> Result<(), String> {
    // A turn that was stopped meanwhile begins nothing. Its preparation goes on all the same, for
    // it ends a setup that an earlier daemon has left running.
    if signals.stop().is_some() {
        return Ok(());
    }
    // Without its executor the turn fails anyway.
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
    // Both are asked before either is waited for.
    if !turns.is_empty() {
        handle.send(TurnEvent::EndLessConfined(turns));
    }
    if let Some(preview) = &preview {
        preview.stop();
    }
    let until = Instant::now() + world.settings.stop_grace + PATIENCE;
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
        // One that has not begun yet will have no less than this turn.
        Some(begun) => begun.get().is_some_and(|own| *own < level),
        None => held(attempt_dir, process).await < level,
    }
}

/// The level that a process began in. One without a record may have no box.
async fn held(attempt_dir: &Path, process: ProcessId) -> Level {
    let dir = process_dir(attempt_dir, process);
    let started = blocking(move || records::read::<Started>(&dir, Started::FILE)).await;
    let receipt = started.ok().flatten().and_then(|started| started.sandbox);
    receipt.map(|receipt| receipt.level).unwrap_or_default()
}

async fn note(world: &World, attempt: &Attempt, level: Level, what: &str) {
    let text = format!(
        "{what}, because the sandbox of this turn, {:?}, holds more than the one it ran in.",
        level.word()
    );
    say(world, attempt, text).await;
}
